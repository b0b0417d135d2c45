// passes: decompose{keep=attention+attention_backward+attention_dropout}

// ----- if a back end has its feature, attention with dropout stays
func.func @main(%q: tensor<1x2x3x4xf32>, %key: tensor<2xui32>) -> tensor<1x2x3x4xf32> {
  %0 = "burn.attention"(%q, %q, %q, %key) {segments = array<i64: 1, 1, 1, 0, 0, 1>, rate = 1.0e-01 : f64, scale = 5.0e-01 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<2xui32>) -> tensor<1x2x3x4xf32>
  "burn.return"(%0) : (tensor<1x2x3x4xf32>) -> ()
}
// CHECK: burn.attention
// CHECK-NOT: burn.random_bits
// CHECK: burn.return

// ----- heads that backward kernels do not have are decomposed, if there is dropout
func.func @main(%q: tensor<1x2x3x300xf32>, %key: tensor<2xui32>) -> (tensor<1x2x3x300xf32>, tensor<1x2x3x300xf32>) {
  %0 = "burn.attention"(%q, %q, %q, %key) {segments = array<i64: 1, 1, 1, 0, 0, 1>, rate = 1.0e-01 : f64, scale = 5.0e-01 : f64} : (tensor<1x2x3x300xf32>, tensor<1x2x3x300xf32>, tensor<1x2x3x300xf32>, tensor<2xui32>) -> tensor<1x2x3x300xf32>
  %1 = "burn.attention"(%q, %q, %q) {segments = array<i64: 1, 1, 1, 0, 0, 0>, scale = 5.0e-01 : f64} : (tensor<1x2x3x300xf32>, tensor<1x2x3x300xf32>, tensor<1x2x3x300xf32>) -> tensor<1x2x3x300xf32>
  "burn.return"(%0, %1) : (tensor<1x2x3x300xf32>, tensor<1x2x3x300xf32>) -> ()
}
// CHECK-NOT: burn.attention
// CHECK: burn.exp
// CHECK: burn.attention
// CHECK-SAME: 1, 1, 1, 0, 0, 0
// CHECK-NOT: burn.attention
// CHECK: burn.return

// ----- a backward op with the gradient of its mask is decomposed without that feature
func.func @main(%q: tensor<1x2x3x4xf32>, %mask: tensor<3x3xf32>, %n: tensor<1x2x3xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) {
  %0:4 = "burn.attention_backward"(%q, %q, %q, %mask, %q, %n, %q) {segments = array<i64: 1, 1, 1, 1, 0, 0, 1, 1, 1>, mask_gradient = true, scale = 5.0e-01 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<3x3xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x3xf32>)
  %1:3 = "burn.attention_backward"(%q, %q, %q, %mask, %q, %n, %q) {segments = array<i64: 1, 1, 1, 1, 0, 0, 1, 1, 1>, scale = 5.0e-01 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<3x3xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>)
  "burn.return"(%0#0, %0#3, %1#1) : (tensor<1x2x3x4xf32>, tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> ()
}
// CHECK-NOT: mask_gradient = true
// CHECK: burn.attention_backward
// CHECK-NOT: burn.attention_backward
// CHECK: burn.return
