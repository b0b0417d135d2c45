// passes: simplify

// ----- attention that is kept for its way back is not computed again, wherever that was said
func.func @main(%q: tensor<1x2x3x4xf32>, %g: tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) {
  %0 = "burn.attention"(%q, %q, %q) {segments = array<i64: 1, 1, 1, 0, 0, 0>, scale = 5.0e-01 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %1 = "burn.exp"(%0) : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %2:2 = "burn.attention_forward"(%q, %q, %q) {segments = array<i64: 1, 1, 1, 0, 0, 0>, scale = 5.0e-01 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  %3:3 = "burn.attention_backward"(%q, %q, %q, %2#0, %2#1, %g) {segments = array<i64: 1, 1, 1, 0, 0, 0, 1, 1, 1>, scale = 5.0e-01 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>)
  "burn.return"(%1, %3#0) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> ()
}
// CHECK-NOT: "burn.attention"(
// CHECK: %[[KEPT:.*]]:2 = "burn.attention_forward"
// CHECK-NOT: "burn.attention"(
// CHECK: "burn.exp"(%[[KEPT]]#0)

// ----- attention of another scale stays
func.func @main(%q: tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3xf32>) {
  %0 = "burn.attention"(%q, %q, %q) {segments = array<i64: 1, 1, 1, 0, 0, 0>, scale = 2.5e-01 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %1:2 = "burn.attention_forward"(%q, %q, %q) {segments = array<i64: 1, 1, 1, 0, 0, 0>, scale = 5.0e-01 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  "burn.return"(%0, %1#0, %1#1) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3xf32>) -> ()
}
// CHECK: "burn.attention"(
// CHECK: "burn.attention_forward"(

// ----- attention with dropout that is kept for its backward pass is not computed again
func.func @main(%q: tensor<1x2x3x4xf32>, %g: tensor<1x2x3x4xf32>, %key: tensor<2xui32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) {
  %0 = "burn.attention"(%q, %q, %q, %key) {segments = array<i64: 1, 1, 1, 0, 0, 1>, rate = 1.0e-01 : f64, scale = 5.0e-01 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<2xui32>) -> tensor<1x2x3x4xf32>
  %1 = "burn.exp"(%0) : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %2:2 = "burn.attention_forward"(%q, %q, %q, %key) {segments = array<i64: 1, 1, 1, 0, 0, 1>, rate = 1.0e-01 : f64, scale = 5.0e-01 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<2xui32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  "burn.return"(%1, %2#0) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> ()
}
// CHECK-NOT: "burn.attention"(
// CHECK: %[[KEPT:.*]]:2 = "burn.attention_forward"
// CHECK: "burn.exp"(%[[KEPT]]#0)
