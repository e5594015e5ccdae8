void run(double A[restrict N][N], double b[restrict N], double x[restrict N], double y[restrict N]) {
  for (int i = 0; i < N; ++i) {
    for (int j = 0; j < i; ++j) {
      double w = A[i][j];
      for (int k = 0; k < j; ++k) w -= A[i][k] * A[k][j];
      A[i][j] = w / A[j][j];
    }
    for (int j = i; j < N; ++j) {
      double w = A[i][j];
      for (int k = 0; k < i; ++k) w -= A[i][k] * A[k][j];
      A[i][j] = w;
    }
  }
  for (int i = 0; i < N; ++i) {
    double w = b[i];
    for (int j = 0; j < i; ++j) w -= A[i][j] * y[j];
    y[i] = w;
  }
  for (int i = N - 1; i >= 0; --i) {
    double w = y[i];
    for (int j = i + 1; j < N; ++j) w -= A[i][j] * x[j];
    x[i] = w / A[i][i];
  }
}
