"builtin.module"() <{sym_name = "jit_cnn"}> ({
  "func.func"() <{function_type = (tensor<2x12x12x3xf32>, tensor<3x3x3x8xf32>, tensor<3x3x1x8xf32>, tensor<72x10xf32>) -> tensor<2x10xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg2: tensor<2x12x12x3xf32>, %arg3: tensor<3x3x3x8xf32>, %arg4: tensor<3x3x1x8xf32>, %arg5: tensor<72x10xf32>):
    %11 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %12 = "stablehlo.constant"() <{value = dense<8.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %13 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %14 = "stablehlo.convolution"(%arg2, %arg3) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, padding = dense<1> : tensor<2x2xi64>}> : (tensor<2x12x12x3xf32>, tensor<3x3x3x8xf32>) -> tensor<2x12x12x8xf32>
    %15 = "func.call"(%14) <{callee = @relu}> : (tensor<2x12x12x8xf32>) -> tensor<2x12x12x8xf32>
    %16 = "stablehlo.broadcast_in_dim"(%13) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<f32>
    %17 = "stablehlo.reduce_window"(%15, %16) <{window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg10: tensor<f32>, %arg11: tensor<f32>):
      %37 = "stablehlo.maximum"(%arg10, %arg11) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%37) : (tensor<f32>) -> ()
    }) : (tensor<2x12x12x8xf32>, tensor<f32>) -> tensor<2x6x6x8xf32>
    %18 = "stablehlo.convolution"(%17, %arg4) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 8 : i64, padding = dense<[[0, 1], [0, 1]]> : tensor<2x2xi64>, window_strides = array<i64: 2, 2>}> : (tensor<2x6x6x8xf32>, tensor<3x3x1x8xf32>) -> tensor<2x3x3x8xf32>
    %19 = "func.call"(%18) <{callee = @silu}> : (tensor<2x3x3x8xf32>) -> tensor<2x3x3x8xf32>
    %20 = "stablehlo.reshape"(%19) : (tensor<2x3x3x8xf32>) -> tensor<2x72xf32>
    %21 = "stablehlo.dot_general"(%20, %arg5) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x72xf32>, tensor<72x10xf32>) -> tensor<2x10xf32>
    %22 = "stablehlo.broadcast_in_dim"(%12) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x10xf32>
    %23 = "stablehlo.divide"(%21, %22) : (tensor<2x10xf32>, tensor<2x10xf32>) -> tensor<2x10xf32>
    %24 = "stablehlo.reduce"(%23, %13) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg8: tensor<f32>, %arg9: tensor<f32>):
      %36 = "stablehlo.maximum"(%arg8, %arg9) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%36) : (tensor<f32>) -> ()
    }) : (tensor<2x10xf32>, tensor<f32>) -> tensor<2xf32>
    %25 = "stablehlo.broadcast_in_dim"(%13) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2xf32>
    %26 = "stablehlo.maximum"(%25, %24) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %27 = "stablehlo.broadcast_in_dim"(%26) <{broadcast_dimensions = array<i64: 0>}> : (tensor<2xf32>) -> tensor<2x1xf32>
    %28 = "stablehlo.broadcast_in_dim"(%27) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x1xf32>) -> tensor<2x10xf32>
    %29 = "stablehlo.subtract"(%23, %28) : (tensor<2x10xf32>, tensor<2x10xf32>) -> tensor<2x10xf32>
    %30 = "stablehlo.exponential"(%29) : (tensor<2x10xf32>) -> tensor<2x10xf32>
    %31 = "stablehlo.reduce"(%30, %11) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):
      %35 = "stablehlo.add"(%arg6, %arg7) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%35) : (tensor<f32>) -> ()
    }) : (tensor<2x10xf32>, tensor<f32>) -> tensor<2xf32>
    %32 = "stablehlo.broadcast_in_dim"(%31) <{broadcast_dimensions = array<i64: 0>}> : (tensor<2xf32>) -> tensor<2x1xf32>
    %33 = "stablehlo.broadcast_in_dim"(%32) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x1xf32>) -> tensor<2x10xf32>
    %34 = "stablehlo.divide"(%30, %33) : (tensor<2x10xf32>, tensor<2x10xf32>) -> tensor<2x10xf32>
    "func.return"(%34) : (tensor<2x10xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<2x12x12x8xf32>) -> tensor<2x12x12x8xf32>, sym_name = "relu", sym_visibility = "private"}> ({
  ^bb0(%arg1: tensor<2x12x12x8xf32>):
    %8 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %9 = "stablehlo.broadcast_in_dim"(%8) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x12x12x8xf32>
    %10 = "stablehlo.maximum"(%arg1, %9) : (tensor<2x12x12x8xf32>, tensor<2x12x12x8xf32>) -> tensor<2x12x12x8xf32>
    "func.return"(%10) : (tensor<2x12x12x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<2x3x3x8xf32>) -> tensor<2x3x3x8xf32>, sym_name = "silu", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<2x3x3x8xf32>):
    %0 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.negate"(%arg0) : (tensor<2x3x3x8xf32>) -> tensor<2x3x3x8xf32>
    %2 = "stablehlo.exponential"(%1) : (tensor<2x3x3x8xf32>) -> tensor<2x3x3x8xf32>
    %3 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3x3x8xf32>
    %4 = "stablehlo.add"(%3, %2) : (tensor<2x3x3x8xf32>, tensor<2x3x3x8xf32>) -> tensor<2x3x3x8xf32>
    %5 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x3x3x8xf32>
    %6 = "stablehlo.divide"(%5, %4) : (tensor<2x3x3x8xf32>, tensor<2x3x3x8xf32>) -> tensor<2x3x3x8xf32>
    %7 = "stablehlo.multiply"(%arg0, %6) : (tensor<2x3x3x8xf32>, tensor<2x3x3x8xf32>) -> tensor<2x3x3x8xf32>
    "func.return"(%7) : (tensor<2x3x3x8xf32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
