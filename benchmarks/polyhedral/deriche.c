static double P[W][H], Q[W][H];

void run(double I[restrict W][H], double a1, double a2, double a3, double a4, double a5, double a6, double a7,
         double a8, double b1, double b2, double O[restrict W][H]) {
  for (int i = 0; i < W; ++i) {
    double x1 = 0, p1 = 0, p2 = 0;
    for (int j = 0; j < H; ++j) {
      P[i][j] = a1 * I[i][j] + a2 * x1 + b1 * p1 + b2 * p2;
      x1 = I[i][j];
      p2 = p1;
      p1 = P[i][j];
    }
  }
  for (int i = 0; i < W; ++i) {
    double x1 = 0, x2 = 0, q1 = 0, q2 = 0;
    for (int j = H - 1; j >= 0; --j) {
      Q[i][j] = a3 * x1 + a4 * x2 + b1 * q1 + b2 * q2;
      x2 = x1;
      x1 = I[i][j];
      q2 = q1;
      q1 = Q[i][j];
    }
  }
  for (int i = 0; i < W; ++i)
    for (int j = 0; j < H; ++j) O[i][j] = P[i][j] + Q[i][j];
  for (int j = 0; j < H; ++j) {
    double x1 = 0, p1 = 0, p2 = 0;
    for (int i = 0; i < W; ++i) {
      P[i][j] = a5 * O[i][j] + a6 * x1 + b1 * p1 + b2 * p2;
      x1 = O[i][j];
      p2 = p1;
      p1 = P[i][j];
    }
  }
  for (int j = 0; j < H; ++j) {
    double x1 = 0, x2 = 0, q1 = 0, q2 = 0;
    for (int i = W - 1; i >= 0; --i) {
      Q[i][j] = a7 * x1 + a8 * x2 + b1 * q1 + b2 * q2;
      x2 = x1;
      x1 = O[i][j];
      q2 = q1;
      q1 = Q[i][j];
    }
  }
  for (int i = 0; i < W; ++i)
    for (int j = 0; j < H; ++j) O[i][j] = P[i][j] + Q[i][j];
}
