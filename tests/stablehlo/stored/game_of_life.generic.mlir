"builtin.module"() <{sym_name = "jit_game_of_life"}> ({
  "func.func"() <{function_type = (tensor<12x12xi8>) -> (tensor<12x12xi8>, tensor<10xi32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg14: tensor<12x12xi8>):
    %84 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %85 = "stablehlo.constant"() <{value = dense<10> : tensor<i32>}> : () -> tensor<i32>
    %86 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %87 = "stablehlo.broadcast_in_dim"(%86) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<10xi32>
    %88:3 = "stablehlo.while"(%86, %arg14, %87) ({
    ^bb0(%arg18: tensor<i32>, %arg19: tensor<12x12xi8>, %arg20: tensor<10xi32>):
      %92 = "stablehlo.compare"(%arg18, %85) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%92) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg15: tensor<i32>, %arg16: tensor<12x12xi8>, %arg17: tensor<10xi32>):
      %89:2 = "func.call"(%arg16) <{callee = @closed_call}> : (tensor<12x12xi8>) -> (tensor<12x12xi8>, tensor<i32>)
      %90 = "func.call"(%arg17, %89#1, %arg15) <{callee = @dynamic_update_index_in_dim}> : (tensor<10xi32>, tensor<i32>, tensor<i32>) -> tensor<10xi32>
      %91 = "stablehlo.add"(%arg15, %84) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%91, %89#0, %90) : (tensor<i32>, tensor<12x12xi8>, tensor<10xi32>) -> ()
    }) : (tensor<i32>, tensor<12x12xi8>, tensor<10xi32>) -> (tensor<i32>, tensor<12x12xi8>, tensor<10xi32>)
    "func.return"(%88#1, %88#2) : (tensor<12x12xi8>, tensor<10xi32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<12x12xi8>) -> (tensor<12x12xi8>, tensor<i32>), sym_name = "closed_call", sym_visibility = "private"}> ({
  ^bb0(%arg11: tensor<12x12xi8>):
    %50 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %51 = "stablehlo.constant"() <{value = dense<2> : tensor<i8>}> : () -> tensor<i8>
    %52 = "stablehlo.constant"() <{value = dense<1> : tensor<i8>}> : () -> tensor<i8>
    %53 = "stablehlo.constant"() <{value = dense<3> : tensor<i8>}> : () -> tensor<i8>
    %54 = "stablehlo.constant"() <{value = dense<0> : tensor<i8>}> : () -> tensor<i8>
    %55 = "func.call"(%arg11) <{callee = @_roll_static}> : (tensor<12x12xi8>) -> tensor<12x12xi8>
    %56 = "stablehlo.broadcast_in_dim"(%54) <{broadcast_dimensions = array<i64>}> : (tensor<i8>) -> tensor<12x12xi8>
    %57 = "stablehlo.add"(%56, %55) : (tensor<12x12xi8>, tensor<12x12xi8>) -> tensor<12x12xi8>
    %58 = "func.call"(%arg11) <{callee = @_roll_static_0}> : (tensor<12x12xi8>) -> tensor<12x12xi8>
    %59 = "stablehlo.add"(%57, %58) : (tensor<12x12xi8>, tensor<12x12xi8>) -> tensor<12x12xi8>
    %60 = "func.call"(%arg11) <{callee = @_roll_static_1}> : (tensor<12x12xi8>) -> tensor<12x12xi8>
    %61 = "stablehlo.add"(%59, %60) : (tensor<12x12xi8>, tensor<12x12xi8>) -> tensor<12x12xi8>
    %62 = "func.call"(%arg11) <{callee = @_roll_static_2}> : (tensor<12x12xi8>) -> tensor<12x12xi8>
    %63 = "stablehlo.add"(%61, %62) : (tensor<12x12xi8>, tensor<12x12xi8>) -> tensor<12x12xi8>
    %64 = "func.call"(%arg11) <{callee = @_roll_static_3}> : (tensor<12x12xi8>) -> tensor<12x12xi8>
    %65 = "stablehlo.add"(%63, %64) : (tensor<12x12xi8>, tensor<12x12xi8>) -> tensor<12x12xi8>
    %66 = "func.call"(%arg11) <{callee = @_roll_static_4}> : (tensor<12x12xi8>) -> tensor<12x12xi8>
    %67 = "stablehlo.add"(%65, %66) : (tensor<12x12xi8>, tensor<12x12xi8>) -> tensor<12x12xi8>
    %68 = "func.call"(%arg11) <{callee = @_roll_static_5}> : (tensor<12x12xi8>) -> tensor<12x12xi8>
    %69 = "stablehlo.add"(%67, %68) : (tensor<12x12xi8>, tensor<12x12xi8>) -> tensor<12x12xi8>
    %70 = "func.call"(%arg11) <{callee = @_roll_static_6}> : (tensor<12x12xi8>) -> tensor<12x12xi8>
    %71 = "stablehlo.add"(%69, %70) : (tensor<12x12xi8>, tensor<12x12xi8>) -> tensor<12x12xi8>
    %72 = "stablehlo.broadcast_in_dim"(%53) <{broadcast_dimensions = array<i64>}> : (tensor<i8>) -> tensor<12x12xi8>
    %73 = "stablehlo.compare"(%71, %72) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<12x12xi8>, tensor<12x12xi8>) -> tensor<12x12xi1>
    %74 = "stablehlo.broadcast_in_dim"(%52) <{broadcast_dimensions = array<i64>}> : (tensor<i8>) -> tensor<12x12xi8>
    %75 = "stablehlo.compare"(%arg11, %74) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<12x12xi8>, tensor<12x12xi8>) -> tensor<12x12xi1>
    %76 = "stablehlo.broadcast_in_dim"(%51) <{broadcast_dimensions = array<i64>}> : (tensor<i8>) -> tensor<12x12xi8>
    %77 = "stablehlo.compare"(%71, %76) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<12x12xi8>, tensor<12x12xi8>) -> tensor<12x12xi1>
    %78 = "stablehlo.and"(%75, %77) : (tensor<12x12xi1>, tensor<12x12xi1>) -> tensor<12x12xi1>
    %79 = "stablehlo.or"(%73, %78) : (tensor<12x12xi1>, tensor<12x12xi1>) -> tensor<12x12xi1>
    %80 = "stablehlo.convert"(%79) : (tensor<12x12xi1>) -> tensor<12x12xi8>
    %81 = "stablehlo.convert"(%80) : (tensor<12x12xi8>) -> tensor<12x12xi32>
    %82 = "stablehlo.reduce"(%81, %50) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%arg12: tensor<i32>, %arg13: tensor<i32>):
      %83 = "stablehlo.add"(%arg12, %arg13) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%83) : (tensor<i32>) -> ()
    }) : (tensor<12x12xi32>, tensor<i32>) -> tensor<i32>
    "func.return"(%80, %82) : (tensor<12x12xi8>, tensor<i32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<12x12xi8>) -> tensor<12x12xi8>, sym_name = "_roll_static", sym_visibility = "private"}> ({
  ^bb0(%arg10: tensor<12x12xi8>):
    %44 = "stablehlo.slice"(%arg10) <{limit_indices = array<i64: 12, 12>, start_indices = array<i64: 1, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<11x12xi8>
    %45 = "stablehlo.slice"(%arg10) <{limit_indices = array<i64: 1, 12>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<1x12xi8>
    %46 = "stablehlo.concatenate"(%44, %45) <{dimension = 0 : i64}> : (tensor<11x12xi8>, tensor<1x12xi8>) -> tensor<12x12xi8>
    %47 = "stablehlo.slice"(%46) <{limit_indices = array<i64: 12, 12>, start_indices = array<i64: 0, 1>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x11xi8>
    %48 = "stablehlo.slice"(%46) <{limit_indices = array<i64: 12, 1>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x1xi8>
    %49 = "stablehlo.concatenate"(%47, %48) <{dimension = 1 : i64}> : (tensor<12x11xi8>, tensor<12x1xi8>) -> tensor<12x12xi8>
    "func.return"(%49) : (tensor<12x12xi8>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<12x12xi8>) -> tensor<12x12xi8>, sym_name = "_roll_static_0", sym_visibility = "private"}> ({
  ^bb0(%arg9: tensor<12x12xi8>):
    %38 = "stablehlo.slice"(%arg9) <{limit_indices = array<i64: 12, 12>, start_indices = array<i64: 1, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<11x12xi8>
    %39 = "stablehlo.slice"(%arg9) <{limit_indices = array<i64: 1, 12>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<1x12xi8>
    %40 = "stablehlo.concatenate"(%38, %39) <{dimension = 0 : i64}> : (tensor<11x12xi8>, tensor<1x12xi8>) -> tensor<12x12xi8>
    %41 = "stablehlo.slice"(%40) <{limit_indices = array<i64: 12, 12>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x12xi8>
    %42 = "stablehlo.slice"(%40) <{limit_indices = array<i64: 12, 0>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x0xi8>
    %43 = "stablehlo.concatenate"(%41, %42) <{dimension = 1 : i64}> : (tensor<12x12xi8>, tensor<12x0xi8>) -> tensor<12x12xi8>
    "func.return"(%43) : (tensor<12x12xi8>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<12x12xi8>) -> tensor<12x12xi8>, sym_name = "_roll_static_1", sym_visibility = "private"}> ({
  ^bb0(%arg8: tensor<12x12xi8>):
    %32 = "stablehlo.slice"(%arg8) <{limit_indices = array<i64: 12, 12>, start_indices = array<i64: 1, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<11x12xi8>
    %33 = "stablehlo.slice"(%arg8) <{limit_indices = array<i64: 1, 12>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<1x12xi8>
    %34 = "stablehlo.concatenate"(%32, %33) <{dimension = 0 : i64}> : (tensor<11x12xi8>, tensor<1x12xi8>) -> tensor<12x12xi8>
    %35 = "stablehlo.slice"(%34) <{limit_indices = array<i64: 12, 12>, start_indices = array<i64: 0, 11>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x1xi8>
    %36 = "stablehlo.slice"(%34) <{limit_indices = array<i64: 12, 11>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x11xi8>
    %37 = "stablehlo.concatenate"(%35, %36) <{dimension = 1 : i64}> : (tensor<12x1xi8>, tensor<12x11xi8>) -> tensor<12x12xi8>
    "func.return"(%37) : (tensor<12x12xi8>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<12x12xi8>) -> tensor<12x12xi8>, sym_name = "_roll_static_2", sym_visibility = "private"}> ({
  ^bb0(%arg7: tensor<12x12xi8>):
    %26 = "stablehlo.slice"(%arg7) <{limit_indices = array<i64: 12, 12>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x12xi8>
    %27 = "stablehlo.slice"(%arg7) <{limit_indices = array<i64: 0, 12>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<0x12xi8>
    %28 = "stablehlo.concatenate"(%26, %27) <{dimension = 0 : i64}> : (tensor<12x12xi8>, tensor<0x12xi8>) -> tensor<12x12xi8>
    %29 = "stablehlo.slice"(%28) <{limit_indices = array<i64: 12, 12>, start_indices = array<i64: 0, 1>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x11xi8>
    %30 = "stablehlo.slice"(%28) <{limit_indices = array<i64: 12, 1>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x1xi8>
    %31 = "stablehlo.concatenate"(%29, %30) <{dimension = 1 : i64}> : (tensor<12x11xi8>, tensor<12x1xi8>) -> tensor<12x12xi8>
    "func.return"(%31) : (tensor<12x12xi8>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<12x12xi8>) -> tensor<12x12xi8>, sym_name = "_roll_static_3", sym_visibility = "private"}> ({
  ^bb0(%arg6: tensor<12x12xi8>):
    %20 = "stablehlo.slice"(%arg6) <{limit_indices = array<i64: 12, 12>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x12xi8>
    %21 = "stablehlo.slice"(%arg6) <{limit_indices = array<i64: 0, 12>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<0x12xi8>
    %22 = "stablehlo.concatenate"(%20, %21) <{dimension = 0 : i64}> : (tensor<12x12xi8>, tensor<0x12xi8>) -> tensor<12x12xi8>
    %23 = "stablehlo.slice"(%22) <{limit_indices = array<i64: 12, 12>, start_indices = array<i64: 0, 11>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x1xi8>
    %24 = "stablehlo.slice"(%22) <{limit_indices = array<i64: 12, 11>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x11xi8>
    %25 = "stablehlo.concatenate"(%23, %24) <{dimension = 1 : i64}> : (tensor<12x1xi8>, tensor<12x11xi8>) -> tensor<12x12xi8>
    "func.return"(%25) : (tensor<12x12xi8>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<12x12xi8>) -> tensor<12x12xi8>, sym_name = "_roll_static_4", sym_visibility = "private"}> ({
  ^bb0(%arg5: tensor<12x12xi8>):
    %14 = "stablehlo.slice"(%arg5) <{limit_indices = array<i64: 12, 12>, start_indices = array<i64: 11, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<1x12xi8>
    %15 = "stablehlo.slice"(%arg5) <{limit_indices = array<i64: 11, 12>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<11x12xi8>
    %16 = "stablehlo.concatenate"(%14, %15) <{dimension = 0 : i64}> : (tensor<1x12xi8>, tensor<11x12xi8>) -> tensor<12x12xi8>
    %17 = "stablehlo.slice"(%16) <{limit_indices = array<i64: 12, 12>, start_indices = array<i64: 0, 1>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x11xi8>
    %18 = "stablehlo.slice"(%16) <{limit_indices = array<i64: 12, 1>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x1xi8>
    %19 = "stablehlo.concatenate"(%17, %18) <{dimension = 1 : i64}> : (tensor<12x11xi8>, tensor<12x1xi8>) -> tensor<12x12xi8>
    "func.return"(%19) : (tensor<12x12xi8>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<12x12xi8>) -> tensor<12x12xi8>, sym_name = "_roll_static_5", sym_visibility = "private"}> ({
  ^bb0(%arg4: tensor<12x12xi8>):
    %8 = "stablehlo.slice"(%arg4) <{limit_indices = array<i64: 12, 12>, start_indices = array<i64: 11, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<1x12xi8>
    %9 = "stablehlo.slice"(%arg4) <{limit_indices = array<i64: 11, 12>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<11x12xi8>
    %10 = "stablehlo.concatenate"(%8, %9) <{dimension = 0 : i64}> : (tensor<1x12xi8>, tensor<11x12xi8>) -> tensor<12x12xi8>
    %11 = "stablehlo.slice"(%10) <{limit_indices = array<i64: 12, 12>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x12xi8>
    %12 = "stablehlo.slice"(%10) <{limit_indices = array<i64: 12, 0>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x0xi8>
    %13 = "stablehlo.concatenate"(%11, %12) <{dimension = 1 : i64}> : (tensor<12x12xi8>, tensor<12x0xi8>) -> tensor<12x12xi8>
    "func.return"(%13) : (tensor<12x12xi8>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<12x12xi8>) -> tensor<12x12xi8>, sym_name = "_roll_static_6", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<12x12xi8>):
    %2 = "stablehlo.slice"(%arg3) <{limit_indices = array<i64: 12, 12>, start_indices = array<i64: 11, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<1x12xi8>
    %3 = "stablehlo.slice"(%arg3) <{limit_indices = array<i64: 11, 12>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<11x12xi8>
    %4 = "stablehlo.concatenate"(%2, %3) <{dimension = 0 : i64}> : (tensor<1x12xi8>, tensor<11x12xi8>) -> tensor<12x12xi8>
    %5 = "stablehlo.slice"(%4) <{limit_indices = array<i64: 12, 12>, start_indices = array<i64: 0, 11>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x1xi8>
    %6 = "stablehlo.slice"(%4) <{limit_indices = array<i64: 12, 11>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<12x12xi8>) -> tensor<12x11xi8>
    %7 = "stablehlo.concatenate"(%5, %6) <{dimension = 1 : i64}> : (tensor<12x1xi8>, tensor<12x11xi8>) -> tensor<12x12xi8>
    "func.return"(%7) : (tensor<12x12xi8>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<10xi32>, tensor<i32>, tensor<i32>) -> tensor<10xi32>, sym_name = "dynamic_update_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<10xi32>, %arg1: tensor<i32>, %arg2: tensor<i32>):
    %0 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<1xi32>
    %1 = "stablehlo.dynamic_update_slice"(%arg0, %0, %arg2) : (tensor<10xi32>, tensor<1xi32>, tensor<i32>) -> tensor<10xi32>
    "func.return"(%1) : (tensor<10xi32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
