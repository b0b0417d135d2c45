// passes: fuse

// ----- sums down columns are formed where rows are gone through anyway, with what is made of them
func.func @main(%x: tensor<512x32xbf16>) -> (tensor<512x32xf32>, tensor<1x32xbf16>) {
  %0 = "burn.cast"(%x) {dtype = "float32", saturate = true} : (tensor<512x32xbf16>) -> tensor<512x32xf32>
  %1 = "burn.reduce"(%0) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<512x32xf32>) -> tensor<512x1xf32>
  %2 = "burn.sub"(%0, %1) : (tensor<512x32xf32>, tensor<512x1xf32>) -> tensor<512x32xf32>
  %3 = "burn.reduce"(%2) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<512x32xf32>) -> tensor<1x32xf32>
  %4 = "burn.cast"(%3) {dtype = "bfloat16", saturate = true} : (tensor<1x32xf32>) -> tensor<1x32xbf16>
  "burn.return"(%2, %4) : (tensor<512x32xf32>, tensor<1x32xbf16>) -> ()
}
// CHECK: burn.group
// CHECK: axes = array<i64: 1>
// CHECK: axes = array<i64: 0>
// CHECK: burn.cast
// CHECK: burn.yield
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- so are those of a tensor that the rows' kernel reads, though nothing of what it computes
func.func @main(%x: tensor<512x32xf32>) -> (tensor<1x32xf32>, tensor<512x1xf32>) {
  %0 = "burn.reduce"(%x) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<512x32xf32>) -> tensor<1x32xf32>
  %1 = "burn.reduce"(%x) {axes = array<i64: 1>, keepdims = true, kind = "max"} : (tensor<512x32xf32>) -> tensor<512x1xf32>
  "burn.return"(%0, %1) : (tensor<1x32xf32>, tensor<512x1xf32>) -> ()
}
// CHECK: burn.group
// CHECK: axes = array<i64: 0>
// CHECK: axes = array<i64: 1>
// CHECK: burn.yield
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- rows that need what their columns come to are another kernel's
func.func @main(%x: tensor<512x32xf32>) -> tensor<512x1xf32> {
  %0 = "burn.reduce"(%x) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<512x32xf32>) -> tensor<1x32xf32>
  %1 = "burn.sub"(%x, %0) : (tensor<512x32xf32>, tensor<1x32xf32>) -> tensor<512x32xf32>
  %2 = "burn.reduce"(%1) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<512x32xf32>) -> tensor<512x1xf32>
  "burn.return"(%2) : (tensor<512x1xf32>) -> ()
}
// CHECK: burn.group
// CHECK: axes = array<i64: 0>
// CHECK: burn.yield
// CHECK: burn.group
// CHECK: axes = array<i64: 1>

// ----- indices of the largest of columns are another kernel's
func.func @main(%x: tensor<512x32xf32>) -> (tensor<32xi64>, tensor<512x1xf32>) {
  %0 = "burn.arg_reduce"(%x) {axis = 0 : i64, keepdims = false, kind = "max", last = false} : (tensor<512x32xf32>) -> tensor<32xi64>
  %1 = "burn.reduce"(%x) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<512x32xf32>) -> tensor<512x1xf32>
  "burn.return"(%0, %1) : (tensor<32xi64>, tensor<512x1xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.arg_reduce
// CHECK: burn.yield
// CHECK: burn.group
// CHECK: burn.reduce

// ----- sums down columns join the indices of the largest of rows
func.func @main(%x: tensor<512x32xf32>) -> (tensor<1x32xf32>, tensor<512xi64>) {
  %0 = "burn.reduce"(%x) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<512x32xf32>) -> tensor<1x32xf32>
  %1 = "burn.arg_reduce"(%x) {axis = 1 : i64, keepdims = false, kind = "max", last = false} : (tensor<512x32xf32>) -> tensor<512xi64>
  "burn.return"(%0, %1) : (tensor<1x32xf32>, tensor<512xi64>) -> ()
}
// CHECK: burn.group
// CHECK: burn.reduce
// CHECK: burn.arg_reduce
// CHECK: burn.yield
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- rows that are too long for a kernel to hold what they come to are not folded
func.func @main(%x: tensor<512x10000xf32>) -> (tensor<1x10000xf32>, tensor<512x1xf32>) {
  %0 = "burn.reduce"(%x) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<512x10000xf32>) -> tensor<1x10000xf32>
  %1 = "burn.reduce"(%x) {axes = array<i64: 1>, keepdims = true, kind = "max"} : (tensor<512x10000xf32>) -> tensor<512x1xf32>
  "burn.return"(%0, %1) : (tensor<1x10000xf32>, tensor<512x1xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.group

// ----- two groups that reduce the same rows are one, where an op reads both
func.func @main(%x: tensor<512x32xf32>, %g: tensor<512x32xf32>) -> tensor<512x32xf32> {
  %0 = "burn.reduce"(%x) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<512x32xf32>) -> tensor<512x1xf32>
  %1 = "burn.sub"(%x, %0) : (tensor<512x32xf32>, tensor<512x1xf32>) -> tensor<512x32xf32>
  %2 = "burn.reduce"(%g) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<512x32xf32>) -> tensor<512x1xf32>
  %3 = "burn.sub"(%g, %2) : (tensor<512x32xf32>, tensor<512x1xf32>) -> tensor<512x32xf32>
  %4 = "burn.mul"(%1, %3) : (tensor<512x32xf32>, tensor<512x32xf32>) -> tensor<512x32xf32>
  "burn.return"(%4) : (tensor<512x32xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.reduce
// CHECK: burn.reduce
// CHECK: burn.mul
// CHECK: burn.yield
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- sums of a matmul's result, and of the result times a normalised input, are in the kernel of the norm's gradient
func.func @main(%g: tensor<512x16xbf16>, %w: tensor<16x32xbf16>, %d: tensor<512x32xf32>, %x: tensor<512x32xf32>, %scale: tensor<32xf32>, %m: tensor<512x1xf32>, %r: tensor<512x1xf32>) -> (tensor<512x32xbf16>, tensor<1x32xf32>, tensor<1x32xf32>) {
  %0 = "burn.dot_general"(%g, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<512x16xbf16>, tensor<16x32xbf16>) -> tensor<512x32xbf16>
  %1 = "burn.cast"(%0) {dtype = "float32", saturate = true} : (tensor<512x32xbf16>) -> tensor<512x32xf32>
  %2 = "burn.add"(%1, %d) : (tensor<512x32xf32>, tensor<512x32xf32>) -> tensor<512x32xf32>
  %3 = "burn.sub"(%x, %m) : (tensor<512x32xf32>, tensor<512x1xf32>) -> tensor<512x32xf32>
  %4 = "burn.mul"(%3, %r) : (tensor<512x32xf32>, tensor<512x1xf32>) -> tensor<512x32xf32>
  %5 = "burn.mul"(%2, %4) : (tensor<512x32xf32>, tensor<512x32xf32>) -> tensor<512x32xf32>
  %6 = "burn.reduce"(%5) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<512x32xf32>) -> tensor<1x32xf32>
  %7 = "burn.reduce"(%2) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<512x32xf32>) -> tensor<1x32xf32>
  %8 = "burn.mul"(%2, %scale) : (tensor<512x32xf32>, tensor<32xf32>) -> tensor<512x32xf32>
  %9 = "burn.mul"(%8, %4) : (tensor<512x32xf32>, tensor<512x32xf32>) -> tensor<512x32xf32>
  %10 = "burn.reduce"(%9) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<512x32xf32>) -> tensor<512x1xf32>
  %11 = "burn.mul"(%4, %10) : (tensor<512x32xf32>, tensor<512x1xf32>) -> tensor<512x32xf32>
  %12 = "burn.sub"(%8, %11) : (tensor<512x32xf32>, tensor<512x32xf32>) -> tensor<512x32xf32>
  %13 = "burn.cast"(%12) {dtype = "bfloat16", saturate = true} : (tensor<512x32xf32>) -> tensor<512x32xbf16>
  "burn.return"(%13, %6, %7) : (tensor<512x32xbf16>, tensor<1x32xf32>, tensor<1x32xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.dot_general
// CHECK: burn.yield
// CHECK-SAME: (tensor<512x32xf32>) -> ()
// CHECK: burn.group
// CHECK-DAG: axes = array<i64: 1>
// CHECK-DAG: axes = array<i64: 0>
// CHECK: burn.yield
// CHECK-SAME: (tensor<1x32xf32>, tensor<1x32xf32>, tensor<512x32xbf16>) -> ()
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- a column's sum of a value that follows from a tensor which no other kernel reads stays
func.func @main(%g: tensor<512x16xbf16>, %w: tensor<16x32xbf16>, %x: tensor<512x32xf32>) -> (tensor<1x32xf32>, tensor<512x1xf32>) {
  %0 = "burn.dot_general"(%g, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<512x16xbf16>, tensor<16x32xbf16>) -> tensor<512x32xbf16>
  %1 = "burn.cast"(%0) {dtype = "float32", saturate = true} : (tensor<512x32xbf16>) -> tensor<512x32xf32>
  %2 = "burn.reduce"(%1) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<512x32xf32>) -> tensor<1x32xf32>
  %3 = "burn.reduce"(%x) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<512x32xf32>) -> tensor<512x1xf32>
  "burn.return"(%2, %3) : (tensor<1x32xf32>, tensor<512x1xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.dot_general
// CHECK: burn.group
// CHECK: axes = array<i64: 0>
// CHECK: burn.group
// CHECK: axes = array<i64: 1>
