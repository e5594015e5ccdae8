void run(double alpha, double beta, double A[restrict N][N], double u1[restrict N], double v1[restrict N],
         double u2[restrict N], double v2[restrict N], double x[restrict N], double y[restrict N], double z[restrict N],
         double w[restrict N]) {
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) A[i][j] += u1[i] * v1[j] + u2[i] * v2[j];
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) x[i] += beta * A[j][i] * y[j];
  for (int i = 0; i < N; ++i) x[i] += z[i];
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) w[i] += alpha * A[i][j] * x[j];
}
