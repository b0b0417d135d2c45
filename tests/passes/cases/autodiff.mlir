// passes: autodiff{by=0}

// ----- a cotangent for each use, added up
func.func @main(%x: tensor<?xf32, ["n"]>) -> tensor<f32> {
  %0 = "burn.exp"(%x) : (tensor<?xf32, ["n"]>) -> tensor<?xf32, ["n"]>
  %1 = "burn.mul"(%0, %x) : (tensor<?xf32, ["n"]>, tensor<?xf32, ["n"]>) -> tensor<?xf32, ["n"]>
  %2 = "burn.reduce"(%1) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<?xf32, ["n"]>) -> tensor<f32>
  "burn.return"(%2) : (tensor<f32>) -> ()
}
// CHECK: [[E:%[0-9]+]] = "burn.exp"(%arg0)
// CHECK: [[ONE:%[0-9]+]] = "burn.broadcast_to"({{.*}}) {shape = ["n"]}
// CHECK-NEXT: [[A:%[0-9]+]] = "burn.mul"([[ONE]], %arg0)
// CHECK-NEXT: [[B:%[0-9]+]] = "burn.mul"([[ONE]], [[E]])
// CHECK-NEXT: [[C:%[0-9]+]] = "burn.mul"([[A]], [[E]])
// CHECK-NEXT: [[D:%[0-9]+]] = "burn.add"([[B]], [[C]])
// CHECK-NEXT: "burn.return"({{.*}}, [[D]])

// ----- only the input that is asked for
func.func @main(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) -> tensor<f32> {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = "burn.reduce"(%0) {axes = array<i64: 0, 1>, keepdims = false, kind = "sum"} : (tensor<2x4xf32>) -> tensor<f32>
  "burn.return"(%1) : (tensor<f32>) -> ()
}
// CHECK: "burn.return"({{%[0-9]+}}, {{%[0-9]+}}) : (tensor<f32>, tensor<2x3xf32>)

// ----- what was repeated is summed
func.func @main(%b: tensor<3xf32>, %x: tensor<?x3xf32, ["n", "3"]>) -> tensor<f32> {
  %0 = "burn.mul"(%x, %b) : (tensor<?x3xf32, ["n", "3"]>, tensor<3xf32>) -> tensor<?x3xf32, ["n", "3"]>
  %1 = "burn.reduce"(%0) {axes = array<i64: 0, 1>, keepdims = false, kind = "sum"} : (tensor<?x3xf32, ["n", "3"]>) -> tensor<f32>
  "burn.return"(%1) : (tensor<f32>) -> ()
}
// CHECK: "burn.reduce"({{.*}}) {axes = array<i64: 0>, keepdims = true, kind = "sum"}
// CHECK: "burn.return"({{.*}}) : (tensor<f32>, tensor<3xf32>)

// ----- a composite goes through what it is made of, and attention stays whole
func.func @main(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x5x4xf32>) -> tensor<f32> {
  %0 = "burn.attention"(%q, %k, %k) {segments = array<i64: 1, 1, 1, 0, 0, 0>, scale = 5.0e-01 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) -> tensor<1x2x3x4xf32>
  %1 = "burn.mish"(%0) : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %2 = "burn.reduce"(%1) {axes = array<i64: 0, 1, 2, 3>, keepdims = false, kind = "sum"} : (tensor<1x2x3x4xf32>) -> tensor<f32>
  "burn.return"(%2) : (tensor<f32>) -> ()
}
// CHECK: burn.attention_forward
// CHECK: burn.tanh
// CHECK: burn.attention_backward
// CHECK-NOT: burn.dot_general
// CHECK: "burn.return"({{.*}}) : (tensor<f32>, tensor<1x2x3x4xf32>)

// ----- gradients of slices that tile an axis are joined
func.func @main(%x: tensor<?x6xf32, ["n", "6"]>) -> tensor<f32> {
  %0 = "burn.slice"(%x) {sizes = ["n", "2"], starts = ["0", "0"], steps = array<i64: 1, 1>} : (tensor<?x6xf32, ["n", "6"]>) -> tensor<?x2xf32, ["n", "2"]>
  %1 = "burn.slice"(%x) {sizes = ["n", "2"], starts = ["0", "4"], steps = array<i64: 1, 1>} : (tensor<?x6xf32, ["n", "6"]>) -> tensor<?x2xf32, ["n", "2"]>
  %2 = "burn.slice"(%x) {sizes = ["n", "2"], starts = ["0", "2"], steps = array<i64: 1, 1>} : (tensor<?x6xf32, ["n", "6"]>) -> tensor<?x2xf32, ["n", "2"]>
  %3 = "burn.mul"(%0, %1) : (tensor<?x2xf32, ["n", "2"]>, tensor<?x2xf32, ["n", "2"]>) -> tensor<?x2xf32, ["n", "2"]>
  %4 = "burn.mul"(%3, %2) : (tensor<?x2xf32, ["n", "2"]>, tensor<?x2xf32, ["n", "2"]>) -> tensor<?x2xf32, ["n", "2"]>
  %5 = "burn.reduce"(%4) {axes = array<i64: 0, 1>, keepdims = false, kind = "sum"} : (tensor<?x2xf32, ["n", "2"]>) -> tensor<f32>
  "burn.return"(%5) : (tensor<f32>) -> ()
}
// CHECK: [[J:%[0-9]+]] = "burn.concat"({{%[0-9]+, %[0-9]+, %[0-9]+}}) {axis = 1 : i64}
// CHECK: "burn.return"({{.*}}, [[J]])

// ----- slices that leave a gap are padded
func.func @main(%x: tensor<6xf32>) -> tensor<f32> {
  %0 = "burn.slice"(%x) {sizes = ["2"], starts = ["0"], steps = array<i64: 1>} : (tensor<6xf32>) -> tensor<2xf32>
  %1 = "burn.slice"(%x) {sizes = ["2"], starts = ["4"], steps = array<i64: 1>} : (tensor<6xf32>) -> tensor<2xf32>
  %2 = "burn.mul"(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = "burn.reduce"(%2) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<2xf32>) -> tensor<f32>
  "burn.return"(%3) : (tensor<f32>) -> ()
}
// CHECK: burn.pad
// CHECK: burn.pad
// CHECK: burn.add
// CHECK-NOT: burn.concat
