static double T[NI][NJ];

void run(double alpha, double beta, double A[restrict NI][NK], double B[restrict NK][NJ], double C[restrict NJ][NL],
         double D[restrict NI][NL]) {
  for (int i = 0; i < NI; ++i)
    for (int j = 0; j < NJ; ++j) {
      T[i][j] = 0;
      for (int k = 0; k < NK; ++k) T[i][j] += alpha * A[i][k] * B[k][j];
    }
  for (int i = 0; i < NI; ++i)
    for (int l = 0; l < NL; ++l) {
      D[i][l] *= beta;
      for (int j = 0; j < NJ; ++j) D[i][l] += T[i][j] * C[j][l];
    }
}
