static int larger(int a, int b) { return a >= b ? a : b; }

void run(int s[restrict N], int T[restrict N][N]) {
  for (int i = N - 1; i >= 0; --i)
    for (int j = i + 1; j < N; ++j) {
      T[i][j] = larger(T[i][j], T[i][j - 1]);
      T[i][j] = larger(T[i][j], T[i + 1][j]);
      T[i][j] = larger(T[i][j], T[i + 1][j - 1] + (i < j - 1 && s[i] + s[j] == 3));
      for (int k = i + 1; k < j; ++k) T[i][j] = larger(T[i][j], T[i][k] + T[k + 1][j]);
    }
}
