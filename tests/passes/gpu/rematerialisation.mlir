// passes: decompose,fuse

// ----- what a normalisation's way back reads of the way forward follows from its input and two numbers a row
// rounds
func.func @main(%x: tensor<64x32xbf16>, %g: tensor<64x32xf32>) -> (tensor<64x1xf32>, tensor<1x32xf32>) {
  %0 = "burn.cast"(%x) {dtype = "float32", saturate = true} : (tensor<64x32xbf16>) -> tensor<64x32xf32>
  %1 = "burn.reduce"(%0) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<64x32xf32>) -> tensor<64x1xf32>
  %2 = "burn.sub"(%0, %1) : (tensor<64x32xf32>, tensor<64x1xf32>) -> tensor<64x32xf32>
  %3 = "burn.mul"(%2, %g) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %4 = "burn.reduce"(%3) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<64x32xf32>) -> tensor<1x32xf32>
  "burn.return"(%1, %4) : (tensor<64x1xf32>, tensor<1x32xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.cast
// CHECK: burn.reduce
// CHECK-NOT: burn.sub
// CHECK: burn.yield
// CHECK-SAME: tensor<64x1xf32>
// CHECK: burn.group
// CHECK: burn.cast
// CHECK: burn.sub
// CHECK: burn.mul
// CHECK: burn.reduce
// CHECK: burn.return

// ----- what reads more than the value itself is read where it lies
// rounds
func.func @main(%x: tensor<64x32xf32>, %y: tensor<64x32xf32>, %z: tensor<64x32xf32>, %w: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<1x32xf32>) {
  %0 = "burn.add"(%x, %y) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = "burn.add"(%0, %z) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %2 = "burn.add"(%1, %w) : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %3 = "burn.reduce"(%2) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<64x32xf32>) -> tensor<64x1xf32>
  %4 = "burn.div"(%2, %3) : (tensor<64x32xf32>, tensor<64x1xf32>) -> tensor<64x32xf32>
  %5 = "burn.reduce"(%2) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<64x32xf32>) -> tensor<1x32xf32>
  "burn.return"(%4, %5) : (tensor<64x32xf32>, tensor<1x32xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.add
// CHECK: burn.add
// CHECK: burn.add
// CHECK: burn.group
// CHECK-NOT: burn.add
// CHECK: burn.return

// ----- a product's result in a wider type is not stored beside it: its readers widen what lies there
// rounds
func.func @main(%a: tensor<64x32xbf16>, %b: tensor<32x128xbf16>) -> (tensor<64x128xbf16>, tensor<64x1xf32>) {
  %0 = "burn.dot_general"(%a, %b) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<64x32xbf16>, tensor<32x128xbf16>) -> tensor<64x128xbf16>
  %1 = "burn.cast"(%0) {dtype = "float32", saturate = true} : (tensor<64x128xbf16>) -> tensor<64x128xf32>
  %2 = "burn.reduce"(%1) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<64x128xf32>) -> tensor<64x1xf32>
  "burn.return"(%0, %2) : (tensor<64x128xbf16>, tensor<64x1xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.dot_general
// CHECK-NOT: burn.cast
// CHECK: burn.yield
// CHECK: burn.group
// CHECK: burn.cast
// CHECK: burn.reduce

// ----- what is summed of a product's result and of what went forward is formed where it is summed
// rounds
func.func @main(%x: tensor<64x128xbf16>, %m: tensor<1x128xf32>, %g: tensor<64x32xbf16>, %w: tensor<32x128xbf16>) -> (tensor<64x1xf32>, tensor<64x128xbf16>, tensor<1x128xf32>) {
  %z = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %n = "burn.full"() {dtype = "bfloat16", shape = [], value = 0.0 : f64} : () -> tensor<bf16>
  %0 = "burn.cast"(%x) {dtype = "float32", saturate = true} : (tensor<64x128xbf16>) -> tensor<64x128xf32>
  %1 = "burn.sub"(%0, %m) : (tensor<64x128xf32>, tensor<1x128xf32>) -> tensor<64x128xf32>
  %2 = "burn.reduce"(%1) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<64x128xf32>) -> tensor<64x1xf32>
  %3 = "burn.dot_general"(%g, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<64x32xbf16>, tensor<32x128xbf16>) -> tensor<64x128xbf16>
  %4 = "burn.gt"(%1, %z) : (tensor<64x128xf32>, tensor<f32>) -> tensor<64x128xi1>
  %5 = "burn.select"(%4, %3, %n) : (tensor<64x128xi1>, tensor<64x128xbf16>, tensor<bf16>) -> tensor<64x128xbf16>
  %6 = "burn.cast"(%5) {dtype = "float32", saturate = true} : (tensor<64x128xbf16>) -> tensor<64x128xf32>
  %7 = "burn.mul"(%6, %1) : (tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<64x128xf32>
  %8 = "burn.reduce"(%7) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<64x128xf32>) -> tensor<1x128xf32>
  "burn.return"(%2, %5, %8) : (tensor<64x1xf32>, tensor<64x128xbf16>, tensor<1x128xf32>) -> ()
}
// CHECK: burn.group
// CHECK-NOT: burn.dot_general
// CHECK: burn.yield
// CHECK-SAME: (tensor<64x1xf32>, tensor<64x128xi1>) -> ()
// CHECK: burn.group
// CHECK: burn.dot_general
// CHECK: burn.yield
// CHECK-SAME: (tensor<64x128xbf16>) -> ()
// CHECK: burn.group
// CHECK: burn.reduce

// ----- a side of a product lies in memory
// rounds
func.func @main(%x: tensor<64x32xbf16>, %y: tensor<64x32xbf16>, %w: tensor<32x128xbf16>) -> (tensor<64x1xf32>, tensor<64x128xbf16>) {
  %0 = "burn.mul"(%x, %y) : (tensor<64x32xbf16>, tensor<64x32xbf16>) -> tensor<64x32xbf16>
  %1 = "burn.cast"(%0) {dtype = "float32", saturate = true} : (tensor<64x32xbf16>) -> tensor<64x32xf32>
  %2 = "burn.reduce"(%1) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<64x32xf32>) -> tensor<64x1xf32>
  %3 = "burn.dot_general"(%0, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<64x32xbf16>, tensor<32x128xbf16>) -> tensor<64x128xbf16>
  "burn.return"(%2, %3) : (tensor<64x1xf32>, tensor<64x128xbf16>) -> ()
}
// CHECK: burn.group
// CHECK: burn.mul
// CHECK: burn.group
// CHECK-NOT: burn.mul
// CHECK: burn.dot_general

// ----- a small value that a group computes for every row, and that another group then reads, is a loop
func.func @main(%d: tensor<32x64xbf16>, %m: tensor<32x49x64xi1>, %w: tensor<64x64xbf16>) -> (tensor<1x1x64xf32>, tensor<1x1x64xf32>) {
  %zero = "burn.full"() {value = 0.0 : f64, shape = [], dtype = "float32"} : () -> tensor<f32>
  %many = "burn.full"() {value = 49.0 : f64, shape = [], dtype = "float32"} : () -> tensor<f32>
  %0 = "burn.cast"(%d) {dtype = "float32"} : (tensor<32x64xbf16>) -> tensor<32x64xf32>
  %1 = "burn.div"(%0, %many) : (tensor<32x64xf32>, tensor<f32>) -> tensor<32x64xf32>
  %2 = "burn.reshape"(%1) {shape = ["32", "1", "64"]} : (tensor<32x64xf32>) -> tensor<32x1x64xf32>
  %3 = "burn.select"(%m, %zero, %2) : (tensor<32x49x64xi1>, tensor<f32>, tensor<32x1x64xf32>) -> tensor<32x49x64xf32>
  %4 = "burn.reduce"(%3) {kind = "sum", axes = array<i64: 0, 1>, keepdims = true} : (tensor<32x49x64xf32>) -> tensor<1x1x64xf32>
  %5 = "burn.mul"(%3, %4) : (tensor<32x49x64xf32>, tensor<1x1x64xf32>) -> tensor<32x49x64xf32>
  %6 = "burn.cast"(%5) {dtype = "bfloat16"} : (tensor<32x49x64xf32>) -> tensor<32x49x64xbf16>
  %7 = "burn.dot_general"(%6, %w) {lhs_contract = array<i64: 2>, rhs_contract = array<i64: 0>} : (tensor<32x49x64xbf16>, tensor<64x64xbf16>) -> tensor<32x49x64xbf16>
  %8 = "burn.cast"(%7) {dtype = "float32"} : (tensor<32x49x64xbf16>) -> tensor<32x49x64xf32>
  %9 = "burn.add"(%3, %8) : (tensor<32x49x64xf32>, tensor<32x49x64xf32>) -> tensor<32x49x64xf32>
  %10 = "burn.reduce"(%9) {kind = "sum", axes = array<i64: 0, 1>, keepdims = true} : (tensor<32x49x64xf32>) -> tensor<1x1x64xf32>
  "burn.return"(%4, %10) : (tensor<1x1x64xf32>, tensor<1x1x64xf32>) -> ()
}
// CHECK: [[SMALL:%[0-9]+]] = "burn.group"(%arg0)
// CHECK: burn.cast
// CHECK: burn.div
// CHECK: kind = "loop"{{.*}} -> tensor<32x64xf32>
