static double E[NI][NJ], F[NJ][NL];

void run(double A[restrict NI][NK], double B[restrict NK][NJ], double C[restrict NJ][NM], double D[restrict NM][NL],
         double G[restrict NI][NL]) {
  for (int i = 0; i < NI; ++i)
    for (int j = 0; j < NJ; ++j) {
      E[i][j] = 0;
      for (int k = 0; k < NK; ++k) E[i][j] += A[i][k] * B[k][j];
    }
  for (int j = 0; j < NJ; ++j)
    for (int l = 0; l < NL; ++l) {
      F[j][l] = 0;
      for (int m = 0; m < NM; ++m) F[j][l] += C[j][m] * D[m][l];
    }
  for (int i = 0; i < NI; ++i)
    for (int l = 0; l < NL; ++l) {
      G[i][l] = 0;
      for (int j = 0; j < NJ; ++j) G[i][l] += E[i][j] * F[j][l];
    }
}
