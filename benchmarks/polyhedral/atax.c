void run(double A[restrict M][N], double x[restrict N], double y[restrict N]) {
  for (int j = 0; j < N; ++j) y[j] = 0;
  for (int i = 0; i < M; ++i) {
    double t = 0;
    for (int j = 0; j < N; ++j) t += A[i][j] * x[j];
    for (int j = 0; j < N; ++j) y[j] += A[i][j] * t;
  }
}
