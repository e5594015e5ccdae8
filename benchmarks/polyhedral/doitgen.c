void run(double A[restrict R][Q][P], double C4[restrict P][P]) {
  double sum[P];
  for (int r = 0; r < R; ++r)
    for (int q = 0; q < Q; ++q) {
      for (int p = 0; p < P; ++p) {
        sum[p] = 0;
        for (int s = 0; s < P; ++s) sum[p] += A[r][q][s] * C4[s][p];
      }
      for (int p = 0; p < P; ++p) A[r][q][p] = sum[p];
    }
}
