// passes: fuse

// ----- attention is stored as the next matmul reads it, and its gradient reads that
func.func @main(%q: tensor<2x3x64x32xf16>, %g: tensor<2x3x64x32xf16>) -> (tensor<2x64x3x32xf16>, tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>) {
  %0:2 = "burn.attention_forward"(%q, %q, %q) {segments = array<i64: 1, 1, 1, 0, 0, 0>, scale = 5.0e-01 : f64} : (tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>) -> (tensor<2x3x64x32xf16>, tensor<2x3x64xf32>)
  %1 = "burn.transpose"(%0#0) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x64x32xf16>) -> tensor<2x64x3x32xf16>
  %2:3 = "burn.attention_backward"(%q, %q, %q, %0#0, %0#1, %g) {segments = array<i64: 1, 1, 1, 0, 0, 0, 1, 1, 1>, scale = 5.0e-01 : f64} : (tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>, tensor<2x3x64xf32>, tensor<2x3x64x32xf16>) -> (tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>)
  "burn.return"(%1, %2#0, %2#1, %2#2) : (tensor<2x64x3x32xf16>, tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>) -> ()
}
// CHECK: burn.group
// CHECK: burn.attention_forward
// CHECK-NEXT: burn.transpose
// CHECK-NEXT: burn.yield
// CHECK: kind = "attention"
// CHECK: burn.group
// CHECK: burn.transpose
// CHECK: burn.attention_backward
// CHECK: kind = "attention_gradient"
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- a third reader keeps the copy
func.func @main(%q: tensor<2x3x64x32xf16>, %g: tensor<2x3x64x32xf16>) -> (tensor<2x64x3x32xf16>, tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>) {
  %0:2 = "burn.attention_forward"(%q, %q, %q) {segments = array<i64: 1, 1, 1, 0, 0, 0>, scale = 5.0e-01 : f64} : (tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>) -> (tensor<2x3x64x32xf16>, tensor<2x3x64xf32>)
  %1 = "burn.transpose"(%0#0) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x64x32xf16>) -> tensor<2x64x3x32xf16>
  %2:3 = "burn.attention_backward"(%q, %q, %q, %0#0, %0#1, %g) {segments = array<i64: 1, 1, 1, 0, 0, 0, 1, 1, 1>, scale = 5.0e-01 : f64} : (tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>, tensor<2x3x64xf32>, tensor<2x3x64x32xf16>) -> (tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>)
  "burn.return"(%1, %0#0, %2#0) : (tensor<2x64x3x32xf16>, tensor<2x3x64x32xf16>, tensor<2x3x64x32xf16>) -> ()
}
// CHECK: kind = "attention"
// CHECK: kind = "loop"
// CHECK: kind = "attention_gradient"

// ----- gradients of queries, keys and values are joined and transposed by one kernel
func.func @main(%q: tensor<1x2x3x64x32xf16>, %k: tensor<1x2x3x64x32xf16>, %v: tensor<1x2x3x64x32xf16>) -> tensor<2x64x3x3x32xf16> {
  %0 = "burn.concat"(%q, %k, %v) {axis = 0 : i64} : (tensor<1x2x3x64x32xf16>, tensor<1x2x3x64x32xf16>, tensor<1x2x3x64x32xf16>) -> tensor<3x2x3x64x32xf16>
  %1 = "burn.transpose"(%0) {permutation = array<i64: 1, 3, 0, 2, 4>} : (tensor<3x2x3x64x32xf16>) -> tensor<2x64x3x3x32xf16>
  "burn.return"(%1) : (tensor<2x64x3x3x32xf16>) -> ()
}
// CHECK: burn.group
// CHECK: burn.concat
// CHECK-NEXT: burn.transpose
// CHECK-NEXT: burn.yield
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- a transpose of the contiguous axis has its own kernel
func.func @main(%q: tensor<1x512x64xf16>, %k: tensor<1x512x64xf16>) -> tensor<2x64x512xf16> {
  %0 = "burn.concat"(%q, %k) {axis = 0 : i64} : (tensor<1x512x64xf16>, tensor<1x512x64xf16>) -> tensor<2x512x64xf16>
  %1 = "burn.transpose"(%0) {permutation = array<i64: 0, 2, 1>} : (tensor<2x512x64xf16>) -> tensor<2x64x512xf16>
  "burn.return"(%1) : (tensor<2x64x512xf16>) -> ()
}
// CHECK: burn.concat
// CHECK-NEXT: burn.yield
// CHECK: burn.transpose
