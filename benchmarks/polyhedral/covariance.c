static double mean[M], X[N][M];

void run(double D[restrict N][M], double C[restrict M][M]) {
  for (int j = 0; j < M; ++j) {
    mean[j] = 0;
    for (int i = 0; i < N; ++i) mean[j] += D[i][j];
    mean[j] /= N;
  }
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < M; ++j) X[i][j] = D[i][j] - mean[j];
  for (int i = 0; i < M; ++i)
    for (int j = i; j < M; ++j) {
      C[i][j] = 0;
      for (int k = 0; k < N; ++k) C[i][j] += X[k][i] * X[k][j];
      C[i][j] /= N - 1.0;
      C[j][i] = C[i][j];
    }
}
