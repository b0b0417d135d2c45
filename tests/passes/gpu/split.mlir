// passes: decompose,fuse

// ----- what is costly behind a large product of halves is a group of its own, which reads what the product wrote
func.func @main(%x: tensor<2048x256xbf16>, %y: tensor<256x1024xbf16>, %b: tensor<1024xbf16>) -> tensor<2048x1024xbf16> {
  %0 = "burn.dot_general"(%x, %y) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2048x256xbf16>, tensor<256x1024xbf16>) -> tensor<2048x1024xbf16>
  %1 = "burn.add"(%0, %b) : (tensor<2048x1024xbf16>, tensor<1024xbf16>) -> tensor<2048x1024xbf16>
  %2 = "burn.erf"(%1) : (tensor<2048x1024xbf16>) -> tensor<2048x1024xbf16>
  %3 = "burn.mul"(%1, %2) : (tensor<2048x1024xbf16>, tensor<2048x1024xbf16>) -> tensor<2048x1024xbf16>
  "burn.return"(%3) : (tensor<2048x1024xbf16>) -> ()
}
// CHECK: burn.group
// CHECK: burn.dot_general
// CHECK-NOT: burn.erf
// CHECK: burn.group
// CHECK: burn.erf
// CHECK: burn.mul
// CHECK-NOT: burn.group

// ----- the multiplication by a function's derivative is in the group of the function
func.func @main(%x: tensor<2048x256xbf16>, %y: tensor<256x1024xbf16>, %z: tensor<2048x1024xbf16>) -> tensor<2048x1024xbf16> {
  %0 = "burn.exp"(%z) : (tensor<2048x1024xbf16>) -> tensor<2048x1024xbf16>
  %1 = "burn.dot_general"(%x, %y) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2048x256xbf16>, tensor<256x1024xbf16>) -> tensor<2048x1024xbf16>
  %2 = "burn.mul"(%0, %1) : (tensor<2048x1024xbf16>, tensor<2048x1024xbf16>) -> tensor<2048x1024xbf16>
  "burn.return"(%2) : (tensor<2048x1024xbf16>) -> ()
}
// CHECK: burn.group
// CHECK: burn.dot_general
// CHECK-NOT: burn.mul
// CHECK: burn.group
// CHECK: burn.exp
// CHECK: burn.mul
// CHECK-NOT: burn.group

// ----- of few sums it is computed at once
func.func @main(%x: tensor<128x256xbf16>, %y: tensor<256x1024xbf16>) -> tensor<128x1024xbf16> {
  %0 = "burn.dot_general"(%x, %y) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<128x256xbf16>, tensor<256x1024xbf16>) -> tensor<128x1024xbf16>
  %1 = "burn.erf"(%0) : (tensor<128x1024xbf16>) -> tensor<128x1024xbf16>
  "burn.return"(%1) : (tensor<128x1024xbf16>) -> ()
}
// CHECK: burn.group
// CHECK: burn.dot_general
// CHECK: burn.erf
// CHECK-NOT: burn.group
