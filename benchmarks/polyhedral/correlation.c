#include <math.h>

static double mean[M], dev[M], X[N][M];

void run(double D[restrict N][M], double C[restrict M][M]) {
  for (int j = 0; j < M; ++j) {
    mean[j] = 0;
    for (int i = 0; i < N; ++i) mean[j] += D[i][j];
    mean[j] /= N;
  }
  for (int j = 0; j < M; ++j) {
    dev[j] = 0;
    for (int i = 0; i < N; ++i) dev[j] += (D[i][j] - mean[j]) * (D[i][j] - mean[j]);
    dev[j] = sqrt(dev[j] / N);
    dev[j] = dev[j] <= 0.1 ? 1.0 : dev[j];
  }
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < M; ++j) X[i][j] = (D[i][j] - mean[j]) / (sqrt((double)N) * dev[j]);
  for (int i = 0; i < M - 1; ++i) {
    C[i][i] = 1;
    for (int j = i + 1; j < M; ++j) {
      C[i][j] = 0;
      for (int k = 0; k < N; ++k) C[i][j] += X[k][i] * X[k][j];
      C[j][i] = C[i][j];
    }
  }
  C[M - 1][M - 1] = 1;
}
