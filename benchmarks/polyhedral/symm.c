void run(double alpha, double beta, double A[restrict M][M], double B[restrict M][N], double C[restrict M][N]) {
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      double t = 0;
      for (int k = 0; k < i; ++k) {
        C[k][j] += alpha * B[i][j] * A[i][k];
        t += B[k][j] * A[i][k];
      }
      C[i][j] = beta * C[i][j] + alpha * B[i][j] * A[i][i] + alpha * t;
    }
}
