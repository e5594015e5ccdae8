#include <math.h>

void run(double A[restrict M][N], double R[restrict N][N], double Q[restrict M][N]) {
  for (int k = 0; k < N; ++k) {
    double n = 0;
    for (int i = 0; i < M; ++i) n += A[i][k] * A[i][k];
    R[k][k] = sqrt(n);
    for (int i = 0; i < M; ++i) Q[i][k] = A[i][k] / R[k][k];
    for (int j = k + 1; j < N; ++j) {
      R[k][j] = 0;
      for (int i = 0; i < M; ++i) R[k][j] += Q[i][k] * A[i][j];
      for (int i = 0; i < M; ++i) A[i][j] -= Q[i][k] * R[k][j];
    }
  }
}
