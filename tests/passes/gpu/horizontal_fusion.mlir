// passes: fuse

// ----- sums of a normalisation's cotangent, and the gradient that depends on them, read the cotangent once
func.func @main(%x: tensor<640x32xbf16>, %g: tensor<640x32xbf16>, %m: tensor<1x32xf32>) -> (tensor<1x32xf32>, tensor<640x32xf32>) {
  %0 = "burn.cast"(%g) {dtype = "float32", saturate = true} : (tensor<640x32xbf16>) -> tensor<640x32xf32>
  %1 = "burn.reduce"(%0) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<640x32xf32>) -> tensor<1x32xf32>
  %2 = "burn.cast"(%x) {dtype = "float32", saturate = true} : (tensor<640x32xbf16>) -> tensor<640x32xf32>
  %3 = "burn.cast"(%g) {dtype = "float32", saturate = true} : (tensor<640x32xbf16>) -> tensor<640x32xf32>
  %4 = "burn.sub"(%2, %m) : (tensor<640x32xf32>, tensor<1x32xf32>) -> tensor<640x32xf32>
  %5 = "burn.mul"(%3, %4) : (tensor<640x32xf32>, tensor<640x32xf32>) -> tensor<640x32xf32>
  %6 = "burn.reduce"(%5) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<640x32xf32>) -> tensor<1x32xf32>
  %7 = "burn.mul"(%6, %1) : (tensor<1x32xf32>, tensor<1x32xf32>) -> tensor<1x32xf32>
  %8 = "burn.mul"(%4, %7) : (tensor<640x32xf32>, tensor<1x32xf32>) -> tensor<640x32xf32>
  "burn.return"(%1, %8) : (tensor<1x32xf32>, tensor<640x32xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.reduce
// CHECK: burn.reduce
// CHECK: burn.yield
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- what lies between two reductions keeps them apart
func.func @main(%g: tensor<640x32xbf16>, %w: tensor<32x32xf32>) -> (tensor<1x32xf32>, tensor<1x32xf32>) {
  %0 = "burn.cast"(%g) {dtype = "float32", saturate = true} : (tensor<640x32xbf16>) -> tensor<640x32xf32>
  %1 = "burn.reduce"(%0) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<640x32xf32>) -> tensor<1x32xf32>
  %2 = "burn.dot_general"(%1, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<1x32xf32>, tensor<32x32xf32>) -> tensor<1x32xf32>
  %3 = "burn.cast"(%g) {dtype = "float32", saturate = true} : (tensor<640x32xbf16>) -> tensor<640x32xf32>
  %4 = "burn.mul"(%3, %2) : (tensor<640x32xf32>, tensor<1x32xf32>) -> tensor<640x32xf32>
  %5 = "burn.reduce"(%4) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<640x32xf32>) -> tensor<1x32xf32>
  "burn.return"(%1, %5) : (tensor<1x32xf32>, tensor<1x32xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.reduce
// CHECK: burn.yield
// CHECK: burn.group
// CHECK: burn.dot_general
// CHECK: burn.yield
// CHECK: burn.group
// CHECK: burn.reduce
// CHECK: burn.yield
