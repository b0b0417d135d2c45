// passes: join_dots

// ----- queries, keys and values of one row operand are one matmul; a missing bias is zero
func.func @main(%x: tensor<7x16xbf16>, %q: tensor<16x16xf32>, %k: tensor<8x16xf32>, %v: tensor<8x16xf32>, %a: tensor<16xf32>, %c: tensor<8xf32>) -> (tensor<7x16xbf16>, tensor<7x8xbf16>, tensor<7x8xbf16>) {
  %0 = "burn.cast"(%q) {dtype = "bfloat16"} : (tensor<16x16xf32>) -> tensor<16x16xbf16>
  %1 = "burn.dot_general"(%x, %0) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<7x16xbf16>, tensor<16x16xbf16>) -> tensor<7x16xbf16>
  %2 = "burn.cast"(%1) {dtype = "float32"} : (tensor<7x16xbf16>) -> tensor<7x16xf32>
  %3 = "burn.cast"(%a) {dtype = "bfloat16"} : (tensor<16xf32>) -> tensor<16xbf16>
  %4 = "burn.add"(%1, %3) : (tensor<7x16xbf16>, tensor<16xbf16>) -> tensor<7x16xbf16>
  %5 = "burn.cast"(%k) {dtype = "bfloat16"} : (tensor<8x16xf32>) -> tensor<8x16xbf16>
  %6 = "burn.dot_general"(%x, %5) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<7x16xbf16>, tensor<8x16xbf16>) -> tensor<7x8xbf16>
  %7 = "burn.cast"(%v) {dtype = "bfloat16"} : (tensor<8x16xf32>) -> tensor<8x16xbf16>
  %8 = "burn.dot_general"(%x, %7) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<7x16xbf16>, tensor<8x16xbf16>) -> tensor<7x8xbf16>
  %9 = "burn.cast"(%c) {dtype = "bfloat16"} : (tensor<8xf32>) -> tensor<8xbf16>
  %10 = "burn.add"(%9, %8) : (tensor<8xbf16>, tensor<7x8xbf16>) -> tensor<7x8xbf16>
  "burn.return"(%4, %6, %10) : (tensor<7x16xbf16>, tensor<7x8xbf16>, tensor<7x8xbf16>) -> ()
}
// CHECK: %[[W:.+]] = "burn.concat"
// CHECK-SAME: tensor<32x16xbf16>
// CHECK: %[[D:.+]] = "burn.dot_general"(%arg0, %[[W]])
// CHECK: %[[Z:.+]] = "burn.full"() {{.*}}value = 0.0
// CHECK: %[[B:.+]] = "burn.concat"(%{{.+}}, %[[Z]], %{{.+}})
// CHECK: %[[S:.+]] = "burn.add"(%[[D]], %[[B]])
// CHECK: %[[Q:.+]] = "burn.slice"(%[[S]]) {{.*}}starts = ["0", "0"]
// CHECK: %[[K:.+]] = "burn.slice"(%[[S]]) {{.*}}starts = ["0", "16"]
// CHECK: %[[V:.+]] = "burn.slice"(%[[S]]) {{.*}}starts = ["0", "24"]
// CHECK: "burn.return"(%[[Q]], %[[K]], %[[V]])

// ----- weights with inputs in rows; without a bias there is no sum
func.func @main(%x: tensor<2x7x16xf16>, %q: tensor<16x4xf32>, %k: tensor<16x8xf32>) -> (tensor<2x7x4xf16>, tensor<2x7x8xf16>) {
  %0 = "burn.cast"(%q) {dtype = "float16"} : (tensor<16x4xf32>) -> tensor<16x4xf16>
  %1 = "burn.dot_general"(%x, %0) {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 0>} : (tensor<2x7x16xf16>, tensor<16x4xf16>) -> tensor<2x7x4xf16>
  %2 = "burn.cast"(%k) {dtype = "float16"} : (tensor<16x8xf32>) -> tensor<16x8xf16>
  %3 = "burn.dot_general"(%x, %2) {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 0>} : (tensor<2x7x16xf16>, tensor<16x8xf16>) -> tensor<2x7x8xf16>
  "burn.return"(%1, %3) : (tensor<2x7x4xf16>, tensor<2x7x8xf16>) -> ()
}
// CHECK: "burn.concat"(%{{.+}}, %{{.+}}) {axis = 1
// CHECK-NOT: burn.add
// CHECK: "burn.slice"(%{{.+}}) {{.*}}starts = ["0", "0", "0"]
// CHECK: "burn.slice"(%{{.+}}) {{.*}}starts = ["0", "0", "4"]

// ----- a bias whose sum is not all that reads a matmul is added to the slice
func.func @main(%x: tensor<7x16xbf16>, %q: tensor<16x16xf32>, %k: tensor<16x16xf32>, %a: tensor<16xf32>) -> (tensor<7x16xbf16>, tensor<7x16xbf16>, tensor<7x16xbf16>) {
  %0 = "burn.cast"(%q) {dtype = "bfloat16"} : (tensor<16x16xf32>) -> tensor<16x16xbf16>
  %1 = "burn.dot_general"(%x, %0) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<7x16xbf16>, tensor<16x16xbf16>) -> tensor<7x16xbf16>
  %2 = "burn.cast"(%a) {dtype = "bfloat16"} : (tensor<16xf32>) -> tensor<16xbf16>
  %3 = "burn.add"(%1, %2) : (tensor<7x16xbf16>, tensor<16xbf16>) -> tensor<7x16xbf16>
  %4 = "burn.cast"(%k) {dtype = "bfloat16"} : (tensor<16x16xf32>) -> tensor<16x16xbf16>
  %5 = "burn.dot_general"(%x, %4) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<7x16xbf16>, tensor<16x16xbf16>) -> tensor<7x16xbf16>
  "burn.return"(%1, %3, %5) : (tensor<7x16xbf16>, tensor<7x16xbf16>, tensor<7x16xbf16>) -> ()
}
// CHECK: %[[D:.+]] = "burn.dot_general"
// CHECK: %[[Q:.+]] = "burn.slice"(%[[D]])
// CHECK: "burn.slice"(%[[D]])
// CHECK: "burn.add"(%[[Q]],

// ----- a layer that widens, another row operand, float32, and a weight that is computed, stays
func.func @main(%x: tensor<7x16xbf16>, %y: tensor<7x16xbf16>, %z: tensor<7x16xf32>, %q: tensor<16x16xf32>, %w: tensor<32x16xf32>) -> (tensor<7x16xbf16>, tensor<7x32xbf16>, tensor<7x16xbf16>, tensor<7x16xf32>, tensor<7x16xf32>, tensor<7x16xbf16>) {
  %0 = "burn.cast"(%q) {dtype = "bfloat16"} : (tensor<16x16xf32>) -> tensor<16x16xbf16>
  %1 = "burn.cast"(%w) {dtype = "bfloat16"} : (tensor<32x16xf32>) -> tensor<32x16xbf16>
  %2 = "burn.dot_general"(%x, %0) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<7x16xbf16>, tensor<16x16xbf16>) -> tensor<7x16xbf16>
  %3 = "burn.dot_general"(%x, %1) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<7x16xbf16>, tensor<32x16xbf16>) -> tensor<7x32xbf16>
  %4 = "burn.dot_general"(%y, %0) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<7x16xbf16>, tensor<16x16xbf16>) -> tensor<7x16xbf16>
  %5 = "burn.dot_general"(%z, %q) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<7x16xf32>, tensor<16x16xf32>) -> tensor<7x16xf32>
  %6 = "burn.dot_general"(%z, %q) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<7x16xf32>, tensor<16x16xf32>) -> tensor<7x16xf32>
  %7 = "burn.exp"(%0) : (tensor<16x16xbf16>) -> tensor<16x16xbf16>
  %8 = "burn.dot_general"(%x, %7) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<7x16xbf16>, tensor<16x16xbf16>) -> tensor<7x16xbf16>
  "burn.return"(%2, %3, %4, %5, %6, %8) : (tensor<7x16xbf16>, tensor<7x32xbf16>, tensor<7x16xbf16>, tensor<7x16xf32>, tensor<7x16xf32>, tensor<7x16xbf16>) -> ()
}
// CHECK-NOT: burn.concat
// CHECK-COUNT-6: "burn.dot_general"

// ----- a large weight stays
func.func @main(%x: tensor<7x4096xbf16>, %q: tensor<4096x4096xf32>, %k: tensor<512x4096xf32>) -> (tensor<7x4096xbf16>, tensor<7x512xbf16>) {
  %0 = "burn.cast"(%q) {dtype = "bfloat16"} : (tensor<4096x4096xf32>) -> tensor<4096x4096xbf16>
  %1 = "burn.dot_general"(%x, %0) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<7x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<7x4096xbf16>
  %2 = "burn.cast"(%k) {dtype = "bfloat16"} : (tensor<512x4096xf32>) -> tensor<512x4096xbf16>
  %3 = "burn.dot_general"(%x, %2) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<7x4096xbf16>, tensor<512x4096xbf16>) -> tensor<7x512xbf16>
  "burn.return"(%1, %3) : (tensor<7x4096xbf16>, tensor<7x512xbf16>) -> ()
}
// CHECK-NOT: burn.concat
// CHECK-COUNT-2: "burn.dot_general"

// ----- queries and keys that are stored in float32 for a norm are joined without the values
func.func @main(%x: tensor<7x16xbf16>, %q: tensor<16x16xf32>, %k: tensor<16x16xf32>, %v: tensor<16x16xf32>) -> (tensor<7x16xf32>, tensor<7x16xf32>, tensor<7x16xbf16>) {
  %0 = "burn.cast"(%q) {dtype = "bfloat16"} : (tensor<16x16xf32>) -> tensor<16x16xbf16>
  %1 = "burn.dot_general"(%x, %0) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>, dtype = "float32"} : (tensor<7x16xbf16>, tensor<16x16xbf16>) -> tensor<7x16xf32>
  %2 = "burn.cast"(%k) {dtype = "bfloat16"} : (tensor<16x16xf32>) -> tensor<16x16xbf16>
  %3 = "burn.dot_general"(%x, %2) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>, dtype = "float32"} : (tensor<7x16xbf16>, tensor<16x16xbf16>) -> tensor<7x16xf32>
  %4 = "burn.cast"(%v) {dtype = "bfloat16"} : (tensor<16x16xf32>) -> tensor<16x16xbf16>
  %5 = "burn.dot_general"(%x, %4) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<7x16xbf16>, tensor<16x16xbf16>) -> tensor<7x16xbf16>
  "burn.return"(%1, %3, %5) : (tensor<7x16xf32>, tensor<7x16xf32>, tensor<7x16xbf16>) -> ()
}
// CHECK: "burn.concat"(%{{[^,]+}}, %{{[^,]+}}) {axis = 0
// CHECK: "burn.dot_general"(%arg0, {{.*}} -> tensor<7x32xf32>
// CHECK: "burn.dot_general"(%arg0, {{.*}} -> tensor<7x16xbf16>
