void run(double alpha, double beta, double A[restrict N][N], double B[restrict N][N], double x[restrict N],
         double y[restrict N]) {
  for (int i = 0; i < N; ++i) {
    double a = 0, b = 0;
    for (int j = 0; j < N; ++j) {
      a += A[i][j] * x[j];
      b += B[i][j] * x[j];
    }
    y[i] = alpha * a + beta * b;
  }
}
