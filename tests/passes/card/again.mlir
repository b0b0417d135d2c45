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
