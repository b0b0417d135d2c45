// passes: fuse

// ----- a rotary embedding is one kernel: halves that are turned, joined, and what is behind them
func.func @main(%x: tensor<4x64xf16>, %cos: tensor<4x32xf32>, %sin: tensor<4x32xf32>) -> tensor<4x64xf16> {
  %0 = "burn.cast"(%x) {dtype = "float32", saturate = true} : (tensor<4x64xf16>) -> tensor<4x64xf32>
  %1 = "burn.slice"(%0) {sizes = ["4", "32"], starts = ["0", "0"], steps = array<i64: 1, 1>} : (tensor<4x64xf32>) -> tensor<4x32xf32>
  %2 = "burn.slice"(%0) {sizes = ["4", "32"], starts = ["0", "32"], steps = array<i64: 1, 1>} : (tensor<4x64xf32>) -> tensor<4x32xf32>
  %3 = "burn.mul"(%1, %cos) : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
  %4 = "burn.mul"(%2, %sin) : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
  %5 = "burn.sub"(%3, %4) : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
  %6 = "burn.mul"(%2, %cos) : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
  %7 = "burn.mul"(%1, %sin) : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
  %8 = "burn.add"(%6, %7) : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
  %9 = "burn.concat"(%5, %8) {axis = 1 : i64} : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x64xf32>
  %10 = "burn.cast"(%9) {dtype = "float16", saturate = true} : (tensor<4x64xf32>) -> tensor<4x64xf16>
  "burn.return"(%10) : (tensor<4x64xf16>) -> ()
}
// CHECK: burn.group
// CHECK: burn.concat
// CHECK: burn.cast
// CHECK: burn.yield
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- what others read too is computed once, in a kernel of its own
func.func @main(%x: tensor<4x3xf32>, %y: tensor<4x2xf32>) -> (tensor<4x3xf32>, tensor<4x5xf32>) {
  %0 = "burn.tanh"(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = "burn.neg"(%y) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %2 = "burn.concat"(%0, %1) {axis = 1 : i64} : (tensor<4x3xf32>, tensor<4x2xf32>) -> tensor<4x5xf32>
  "burn.return"(%0, %2) : (tensor<4x3xf32>, tensor<4x5xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.tanh
// CHECK-NOT: burn.concat
// CHECK: burn.yield
// CHECK: burn.group
// CHECK: burn.neg
// CHECK: burn.concat

// ----- of many parts each is put to its place by itself
func.func @main(%x: tensor<4x1xf32>) -> tensor<4x5xf32> {
  %0 = "burn.neg"(%x) : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %1 = "burn.concat"(%x, %x, %x, %x, %0) {axis = 1 : i64} : (tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x5xf32>
  "burn.return"(%1) : (tensor<4x5xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.neg
// CHECK: burn.group
// CHECK: burn.concat
