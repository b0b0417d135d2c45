// passes: keep_derivatives{far=3 least=1}

// ----- the derivative of an activation is computed in the forward pass, and its operand is not read late
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %y = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %curve = "burn.erf"(%y) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %act = "burn.mul"(%y, %curve) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %out = "burn.dot_general"(%act, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = "burn.neg"(%out) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = "burn.exp"(%y) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %half = "burn.full"() {value = 5.000000e-01, dtype = "float32", shape = []} : () -> tensor<f32>
  %h = "burn.mul"(%e, %half) : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %d = "burn.add"(%h, %curve) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = "burn.mul"(%g, %d) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%out, %r) : (tensor<4x4xf32>, tensor<4x4xf32>) -> ()
}
// CHECK: %[[Y:.+]] = "burn.dot_general"
// CHECK: %[[CURVE:.+]] = "burn.erf"(%[[Y]])
// CHECK: %[[E:.+]] = "burn.exp"(%[[Y]])
// CHECK: %[[HALF:.+]] = "burn.full"
// CHECK: %[[H:.+]] = "burn.mul"(%[[E]], %[[HALF]])
// CHECK: %[[D:.+]] = "burn.add"(%[[H]], %[[CURVE]])
// CHECK: "burn.dot_general"
// CHECK: %[[G:.+]] = "burn.neg"
// CHECK: %[[KEPT:.+]] = "burn.barrier"(%[[D]], %[[D]])
// CHECK: "burn.mul"(%[[G]], %[[KEPT]])

// ----- an activation that a later matmul reads is in memory anyway
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %y = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %curve = "burn.erf"(%y) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %act = "burn.mul"(%y, %curve) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %out = "burn.dot_general"(%act, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = "burn.neg"(%out) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = "burn.exp"(%y) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %half = "burn.full"() {value = 5.000000e-01, dtype = "float32", shape = []} : () -> tensor<f32>
  %h = "burn.mul"(%e, %half) : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %d = "burn.add"(%h, %curve) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = "burn.mul"(%g, %d) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %weight = "burn.dot_general"(%act, %r) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%out, %weight) : (tensor<4x4xf32>, tensor<4x4xf32>) -> ()
}
// CHECK: burn.dot_general
// CHECK: burn.exp
// CHECK: %[[D:.+]] = "burn.add"
// CHECK: burn.dot_general
// CHECK: "burn.barrier"(%[[D]]

// ----- a derivative that is a function of a stored result stays
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %y = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %act = "burn.sigmoid"(%y) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %out = "burn.dot_general"(%act, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = "burn.neg"(%out) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = "burn.abs"(%g) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = "burn.mul"(%act, %act) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = "burn.sub"(%act, %s) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = "burn.mul"(%a, %d) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %weight = "burn.dot_general"(%act, %r) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%out, %weight) : (tensor<4x4xf32>, tensor<4x4xf32>) -> ()
}
// CHECK-NOT: burn.barrier

// ----- both factors of a gated unit are needed: its operand stays
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %y = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %curve = "burn.sigmoid"(%y) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %act = "burn.mul"(%y, %curve) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %gated = "burn.mul"(%act, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %out = "burn.dot_general"(%gated, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = "burn.neg"(%out) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = "burn.exp"(%y) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = "burn.add"(%e, %curve) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = "burn.mul"(%g, %d) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = "burn.mul"(%g, %act) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%out, %r, %q) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> ()
}
// CHECK-NOT: burn.barrier

// ----- an operand that another late op reads stays
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %y = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %curve = "burn.erf"(%y) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %act = "burn.mul"(%y, %curve) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %out = "burn.dot_general"(%act, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = "burn.neg"(%out) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = "burn.exp"(%y) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %half = "burn.full"() {value = 5.000000e-01, dtype = "float32", shape = []} : () -> tensor<f32>
  %h = "burn.mul"(%e, %half) : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %d = "burn.add"(%h, %curve) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = "burn.mul"(%g, %d) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = "burn.add"(%r, %y) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%out, %z) : (tensor<4x4xf32>, tensor<4x4xf32>) -> ()
}
// CHECK-NOT: burn.barrier

// ----- a derivative without a function that the forward pass has stays
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %y = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %act = "burn.abs"(%y) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %out = "burn.dot_general"(%act, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = "burn.neg"(%out) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %k = "burn.neg"(%g) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = "burn.exp"(%y) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = "burn.mul"(%k, %e) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%out, %r) : (tensor<4x4xf32>, tensor<4x4xf32>) -> ()
}
// CHECK-NOT: burn.barrier

// ----- a result of the program that is a function of the matmul alone is stored: the derivative stays
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %y = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %curve = "burn.erf"(%y) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %act = "burn.mul"(%y, %curve) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %out = "burn.dot_general"(%act, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = "burn.neg"(%out) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = "burn.exp"(%y) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = "burn.add"(%e, %curve) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%out, %d) : (tensor<4x4xf32>, tensor<4x4xf32>) -> ()
}
// CHECK-NOT: burn.barrier
