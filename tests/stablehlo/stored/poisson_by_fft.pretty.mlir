module @jit_poisson_by_fft attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16x12xf32>) -> (tensor<16x12xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %cst = stablehlo.constant dense<39.4784164> : tensor<f32>
    %cst_1 = stablehlo.constant dense<1.200000e+01> : tensor<f32>
    %cst_2 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %c_3 = stablehlo.constant dense<16> : tensor<i32>
    %cst_4 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %cst_5 = stablehlo.constant dense<1.920000e+02> : tensor<f32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst_6) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x12xf32>, tensor<f32>) -> tensor<f32>
    %1 = stablehlo.divide %0, %cst_5 : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<16x12xf32>
    %3 = stablehlo.subtract %arg0, %2 : tensor<16x12xf32>
    %4 = stablehlo.iota dim = 0 : tensor<16xf32>
    %5 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %6 = stablehlo.add %4, %5 : tensor<16xf32>
    %7 = call @remainder(%6, %c_3) : (tensor<16xf32>, tensor<i32>) -> tensor<16xf32>
    %8 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %9 = stablehlo.subtract %7, %8 : tensor<16xf32>
    %10 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %11 = stablehlo.divide %9, %10 : tensor<16xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<16xf32>) -> tensor<16x1xf32>
    %13 = stablehlo.iota dim = 0 : tensor<7xf32>
    %14 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<7xf32>
    %15 = stablehlo.divide %13, %14 : tensor<7xf32>
    %16 = stablehlo.multiply %12, %12 : tensor<16x1xf32>
    %17 = stablehlo.multiply %15, %15 : tensor<7xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [1] : (tensor<7xf32>) -> tensor<1x7xf32>
    %19 = stablehlo.broadcast_in_dim %16, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x7xf32>
    %20 = stablehlo.broadcast_in_dim %18, dims = [0, 1] : (tensor<1x7xf32>) -> tensor<16x7xf32>
    %21 = stablehlo.add %19, %20 : tensor<16x7xf32>
    %22 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x7xf32>
    %23 = stablehlo.multiply %22, %21 : tensor<16x7xf32>
    %24 = call @fft(%3) : (tensor<16x12xf32>) -> tensor<16x7xcomplex<f32>>
    %25 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<16x7xf32>
    %26 = stablehlo.compare EQ, %23, %25, FLOAT : (tensor<16x7xf32>, tensor<16x7xf32>) -> tensor<16x7xi1>
    %27 = call @_where(%26, %c_0, %23) : (tensor<16x7xi1>, tensor<i32>, tensor<16x7xf32>) -> tensor<16x7xf32>
    %28 = stablehlo.convert %27 : (tensor<16x7xf32>) -> tensor<16x7xcomplex<f32>>
    %29 = stablehlo.divide %24, %28 : tensor<16x7xcomplex<f32>>
    %30 = call @_pad(%29, %c) : (tensor<16x7xcomplex<f32>>, tensor<i32>) -> tensor<16x7xcomplex<f32>>
    %31 = call @fft_0(%30) : (tensor<16x7xcomplex<f32>>) -> tensor<16x12xf32>
    return %31 : tensor<16x12xf32>
  }
  func.func private @remainder(%arg0: tensor<16xf32>, %arg1: tensor<i32>) -> tensor<16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %2 = stablehlo.remainder %arg0, %1 : tensor<16xf32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %4 = stablehlo.compare NE, %2, %3, FLOAT : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xi1>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %6 = stablehlo.compare LT, %2, %5, FLOAT : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xi1>
    %7 = stablehlo.compare LT, %0, %cst, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %8 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<i1>) -> tensor<16xi1>
    %9 = stablehlo.compare NE, %6, %8, UNSIGNED : (tensor<16xi1>, tensor<16xi1>) -> tensor<16xi1>
    %10 = stablehlo.and %9, %4 : tensor<16xi1>
    %11 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %12 = stablehlo.add %2, %11 : tensor<16xf32>
    %13 = stablehlo.select %10, %12, %2 : tensor<16xi1>, tensor<16xf32>
    return %13 : tensor<16xf32>
  }
  func.func private @fft(%arg0: tensor<16x12xf32>) -> tensor<16x7xcomplex<f32>> {
    %0 = stablehlo.fft %arg0, type = RFFT, length = [16, 12] : (tensor<16x12xf32>) -> tensor<16x7xcomplex<f32>>
    return %0 : tensor<16x7xcomplex<f32>>
  }
  func.func private @_where(%arg0: tensor<16x7xi1>, %arg1: tensor<i32>, %arg2: tensor<16x7xf32>) -> tensor<16x7xf32> {
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<16x7xf32>
    %2 = stablehlo.select %arg0, %1, %arg2 : tensor<16x7xi1>, tensor<16x7xf32>
    return %2 : tensor<16x7xf32>
  }
  func.func private @_pad(%arg0: tensor<16x7xcomplex<f32>>, %arg1: tensor<i32>) -> tensor<16x7xcomplex<f32>> {
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<complex<f32>>
    %1 = stablehlo.pad %arg0, %0, low = [0, 0], high = [0, 0], interior = [0, 0] : (tensor<16x7xcomplex<f32>>, tensor<complex<f32>>) -> tensor<16x7xcomplex<f32>>
    return %1 : tensor<16x7xcomplex<f32>>
  }
  func.func private @fft_0(%arg0: tensor<16x7xcomplex<f32>>) -> tensor<16x12xf32> {
    %0 = stablehlo.fft %arg0, type = IRFFT, length = [16, 12] : (tensor<16x7xcomplex<f32>>) -> tensor<16x12xf32>
    return %0 : tensor<16x12xf32>
  }
}
