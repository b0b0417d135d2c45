// passes: fuse

// ----- an expensive function behind a matmul whose kernel stores two more tensors has a kernel of its own
// large
func.func @main(%x: tensor<4x1024xbf16>, %g: tensor<4x1024xbf16>, %m: tensor<1024x1024xf32>, %v: tensor<1024x1024xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
  %0 = "burn.dot_general"(%x, %g) {lhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<4x1024xbf16>, tensor<4x1024xbf16>) -> tensor<1024x1024xbf16>
  %1 = "burn.cast"(%0) {dtype = "float32", saturate = true} : (tensor<1024x1024xbf16>) -> tensor<1024x1024xf32>
  %2 = "burn.mul"(%1, %1) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %3 = "burn.add"(%m, %1) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %4 = "burn.add"(%v, %2) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %5 = "burn.abs"(%4) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %6 = "burn.div"(%3, %5) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  "burn.return"(%6, %3, %5) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.dot_general
// CHECK-NOT: burn.div
// CHECK: burn.group
// CHECK: burn.div
// CHECK: burn.return

// ----- one result of the same size is computed in the matmul's kernel
// large
func.func @main(%x: tensor<4x1024xbf16>, %g: tensor<4x1024xbf16>, %m: tensor<1024x1024xf32>, %v: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  %0 = "burn.dot_general"(%x, %g) {lhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<4x1024xbf16>, tensor<4x1024xbf16>) -> tensor<1024x1024xbf16>
  %1 = "burn.cast"(%0) {dtype = "float32", saturate = true} : (tensor<1024x1024xbf16>) -> tensor<1024x1024xf32>
  %2 = "burn.mul"(%1, %1) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %3 = "burn.add"(%m, %1) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %4 = "burn.add"(%v, %2) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %5 = "burn.abs"(%4) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %6 = "burn.div"(%3, %5) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  "burn.return"(%6) : (tensor<1024x1024xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.dot_general
// CHECK: burn.div
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- few results are computed in the matmul's kernel
// large
func.func @main(%x: tensor<4x512xbf16>, %g: tensor<4x512xbf16>, %m: tensor<512x512xf32>, %v: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x512xf32>) {
  %0 = "burn.dot_general"(%x, %g) {lhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<4x512xbf16>, tensor<4x512xbf16>) -> tensor<512x512xbf16>
  %1 = "burn.cast"(%0) {dtype = "float32", saturate = true} : (tensor<512x512xbf16>) -> tensor<512x512xf32>
  %2 = "burn.mul"(%1, %1) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %3 = "burn.add"(%m, %1) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %4 = "burn.add"(%v, %2) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %5 = "burn.abs"(%4) : (tensor<512x512xf32>) -> tensor<512x512xf32>
  %6 = "burn.div"(%3, %5) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  "burn.return"(%6, %3, %5) : (tensor<512x512xf32>, tensor<512x512xf32>, tensor<512x512xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.dot_general
// CHECK: burn.div
// CHECK-NOT: burn.group
// CHECK: burn.return
