// passes: lower_complex
// ----- an input and an output stay complex: views of the same memory
func.func @main(%arg0: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %0 = "burn.mul"(%arg0, %arg0) : (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  "burn.return"(%0) : (tensor<4xcomplex<f32>>) -> ()
}
// CHECK: [[V:%.*]] = "burn.view_as_real"(%arg0) : (tensor<4xcomplex<f32>>) -> tensor<4x2xf32>
// CHECK: "burn.mul"
// CHECK-SAME: tensor<4xf32>
// CHECK: "burn.sub"
// CHECK: [[C:%.*]] = "burn.concat"
// CHECK: [[R:%.*]] = "burn.view_as_complex"([[C]]) : (tensor<4x2xf32>) -> tensor<4xcomplex<f32>>
// CHECK: "burn.return"([[R]])
// ----- a part that nothing uses is not computed
func.func @main(%arg0: tensor<4xcomplex<f64>>) -> tensor<4xf64> {
  %0 = "burn.add"(%arg0, %arg0) : (tensor<4xcomplex<f64>>, tensor<4xcomplex<f64>>) -> tensor<4xcomplex<f64>>
  %1 = "burn.imag"(%0) : (tensor<4xcomplex<f64>>) -> tensor<4xf64>
  "burn.return"(%1) : (tensor<4xf64>) -> ()
}
// CHECK: [[A:%.*]] = "burn.add"
// CHECK-NOT: "burn.add"
// CHECK: "burn.return"([[A]])
// ----- a real tensor of pairs becomes complex and real again without a copy
func.func @main(%arg0: tensor<3x2xf32>) -> (tensor<3xcomplex<f32>>, tensor<3x2xf32>) {
  %0 = "burn.view_as_complex"(%arg0) : (tensor<3x2xf32>) -> tensor<3xcomplex<f32>>
  %1 = "burn.view_as_real"(%0) : (tensor<3xcomplex<f32>>) -> tensor<3x2xf32>
  "burn.return"(%0, %1) : (tensor<3xcomplex<f32>>, tensor<3x2xf32>) -> ()
}
// CHECK: [[R:%.*]] = "burn.view_as_complex"(%arg0)
// CHECK-NOT: "burn.concat"
// CHECK: "burn.return"([[R]], %arg0)
// ----- a factor that is a real number scales both parts
func.func @main(%arg0: tensor<4xcomplex<f32>>) -> tensor<4xf32> {
  %0 = "burn.full"() {shape = [], dtype = "complex64", value = 2.0 : f64} : () -> tensor<complex<f32>>
  %1 = "burn.mul"(%arg0, %0) : (tensor<4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<4xcomplex<f32>>
  %2 = "burn.real"(%1) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  "burn.return"(%2) : (tensor<4xf32>) -> ()
}
// CHECK: [[M:%.*]] = "burn.mul"
// CHECK-NOT: "burn.mul"
// CHECK: "burn.return"([[M]])
// ----- results of a conditional are two
func.func @main(%arg0: tensor<i1>, %arg1: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
  %0 = "burn.if"(%arg0) ({
    %1 = "burn.neg"(%arg1) : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
    "burn.yield"(%1) : (tensor<2xcomplex<f32>>) -> ()
  }, {
    "burn.yield"(%arg1) : (tensor<2xcomplex<f32>>) -> ()
  }) : (tensor<i1>) -> tensor<2xcomplex<f32>>
  "burn.return"(%0) : (tensor<2xcomplex<f32>>) -> ()
}
// CHECK: [[I:%.*]]:2 = "burn.if"
// CHECK: "burn.yield"({{.*}}, {{.*}}) : (tensor<2xf32>, tensor<2xf32>)
// CHECK: (tensor<i1>) -> (tensor<2xf32>, tensor<2xf32>)
