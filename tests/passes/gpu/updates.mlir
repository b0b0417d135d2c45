// passes: fuse

// ----- momentum reads a gradient in half precision and has a kernel of its own
// renews: 0=2, 1=3
func.func @main(%x: tensor<64x128xbf16>, %y: tensor<64x256xbf16>, %p: tensor<128x256xf32>, %m: tensor<128x256xf32>)
    -> (tensor<128x256xf32>, tensor<128x256xf32>) {
  %0 = "burn.dot_general"(%x, %y) {lhs_contract = array<i64: 0>, rhs_contract = array<i64: 0>} : (tensor<64x128xbf16>, tensor<64x256xbf16>) -> tensor<128x256xbf16>
  %g = "burn.cast"(%0) {dtype = "float32"} : (tensor<128x256xbf16>) -> tensor<128x256xf32>
  %rate = "burn.full"() {value = 0.1 : f64, shape = [], dtype = "float32"} : () -> tensor<f32>
  %1 = "burn.mul"(%m, %rate) : (tensor<128x256xf32>, tensor<f32>) -> tensor<128x256xf32>
  %2 = "burn.mul"(%g, %g) : (tensor<128x256xf32>, tensor<128x256xf32>) -> tensor<128x256xf32>
  %3 = "burn.add"(%1, %2) : (tensor<128x256xf32>, tensor<128x256xf32>) -> tensor<128x256xf32>
  %4 = "burn.mul"(%g, %rate) : (tensor<128x256xf32>, tensor<f32>) -> tensor<128x256xf32>
  %5 = "burn.sub"(%p, %4) : (tensor<128x256xf32>, tensor<128x256xf32>) -> tensor<128x256xf32>
  %6 = "burn.sub"(%5, %3) : (tensor<128x256xf32>, tensor<128x256xf32>) -> tensor<128x256xf32>
  "burn.return"(%6, %3) : (tensor<128x256xf32>, tensor<128x256xf32>) -> ()
}
// CHECK: [[G:%[0-9]+]] = "burn.group"
// CHECK: burn.dot_general
// CHECK-NEXT: "burn.yield"
// CHECK-NEXT: kind = "contract"{{.*}} -> tensor<128x256xbf16>
// CHECK: "burn.group"([[G]], %arg3, %arg2)
// CHECK: burn.cast
// CHECK-NOT: "burn.group"
// CHECK: kind = "loop"

// ----- updates of different shapes are one group
// renews: 0=2, 1=3
func.func @main(%x: tensor<64x128xf32>, %y: tensor<64x32xf32>, %p: tensor<128xf32>, %q: tensor<32xf32>)
    -> (tensor<128xf32>, tensor<32xf32>) {
  %0 = "burn.reduce"(%x) {kind = "sum", axes = array<i64: 0>} : (tensor<64x128xf32>) -> tensor<128xf32>
  %1 = "burn.sub"(%p, %0) : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
  %2 = "burn.reduce"(%y) {kind = "sum", axes = array<i64: 0>} : (tensor<64x32xf32>) -> tensor<32xf32>
  %3 = "burn.sub"(%q, %2) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  "burn.return"(%1, %3) : (tensor<128xf32>, tensor<32xf32>) -> ()
}
// CHECK: kind = "reduce"
// CHECK: kind = "reduce"
// CHECK: burn.sub
// CHECK: burn.sub
// CHECK: kind = "foreach"

// ----- outputs that renew nothing are epilogues
func.func @main(%x: tensor<64x128xf32>, %y: tensor<64x32xf32>, %p: tensor<128xf32>, %q: tensor<32xf32>)
    -> (tensor<128xf32>, tensor<32xf32>) {
  %0 = "burn.reduce"(%x) {kind = "sum", axes = array<i64: 0>} : (tensor<64x128xf32>) -> tensor<128xf32>
  %1 = "burn.sub"(%p, %0) : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
  %2 = "burn.reduce"(%y) {kind = "sum", axes = array<i64: 0>} : (tensor<64x32xf32>) -> tensor<32xf32>
  %3 = "burn.sub"(%q, %2) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  "burn.return"(%1, %3) : (tensor<128xf32>, tensor<32xf32>) -> ()
}
// CHECK: burn.reduce
// CHECK-NEXT: burn.sub
// CHECK: burn.reduce
// CHECK-NEXT: burn.sub
// CHECK-NOT: foreach

// ----- a gradient that others read is stored
// renews: 0=1
func.func @main(%x: tensor<64x128xf32>, %p: tensor<128xf32>) -> (tensor<128xf32>, tensor<128xf32>) {
  %0 = "burn.reduce"(%x) {kind = "sum", axes = array<i64: 0>} : (tensor<64x128xf32>) -> tensor<128xf32>
  %g = "burn.neg"(%0) : (tensor<128xf32>) -> tensor<128xf32>
  %1 = "burn.add"(%p, %g) : (tensor<128xf32>, tensor<128xf32>) -> tensor<128xf32>
  "burn.return"(%1, %g) : (tensor<128xf32>, tensor<128xf32>) -> ()
}
// CHECK: burn.reduce
// CHECK-NEXT: burn.neg
// CHECK: kind = "reduce"
// CHECK: burn.add
// CHECK: kind = "loop"

// ----- casts of inputs are one group
func.func @main(%x: tensor<8x64xbf16>, %p: tensor<64x128xf32>, %q: tensor<128x32xf32>) -> tensor<8x32xbf16> {
  %0 = "burn.cast"(%p) {dtype = "bfloat16"} : (tensor<64x128xf32>) -> tensor<64x128xbf16>
  %1 = "burn.dot_general"(%x, %0) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<8x64xbf16>, tensor<64x128xbf16>) -> tensor<8x128xbf16>
  %2 = "burn.cast"(%q) {dtype = "bfloat16"} : (tensor<128x32xf32>) -> tensor<128x32xbf16>
  %3 = "burn.dot_general"(%1, %2) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<8x128xbf16>, tensor<128x32xbf16>) -> tensor<8x32xbf16>
  "burn.return"(%3) : (tensor<8x32xbf16>) -> ()
}
// CHECK: burn.cast
// CHECK-NEXT: burn.cast
// CHECK: kind = "foreach"
// CHECK: kind = "contract"
// CHECK: kind = "contract"

// ----- casts that are outputs stay, as they may write to donated inputs
func.func @main(%p: tensor<64x128xf32>, %q: tensor<128x32xf32>) -> (tensor<64x128xbf16>, tensor<128x32xbf16>) {
  %0 = "burn.cast"(%p) {dtype = "bfloat16"} : (tensor<64x128xf32>) -> tensor<64x128xbf16>
  %1 = "burn.cast"(%q) {dtype = "bfloat16"} : (tensor<128x32xf32>) -> tensor<128x32xbf16>
  "burn.return"(%0, %1) : (tensor<64x128xbf16>, tensor<128x32xbf16>) -> ()
}
// CHECK: kind = "loop"
// CHECK: kind = "loop"

// ----- transposes of cast weights, and flipped ones, are a second group
func.func @main(%x: tensor<2x8x8x16xbf16>, %p: tensor<32x16x3x3xf32>, %q: tensor<24x32x3x3xf32>) -> (tensor<2x8x8x24xbf16>, tensor<2x8x8x16xbf16>) {
  %0 = "burn.cast"(%p) {dtype = "bfloat16"} : (tensor<32x16x3x3xf32>) -> tensor<32x16x3x3xbf16>
  %1 = "burn.transpose"(%0) {permutation = array<i64: 2, 3, 1, 0>} : (tensor<32x16x3x3xbf16>) -> tensor<3x3x16x32xbf16>
  %2 = "burn.conv"(%x, %1) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["1", "1"], layout = "last", low = ["1", "1"], strides = array<i64: 1, 1>} : (tensor<2x8x8x16xbf16>, tensor<3x3x16x32xbf16>) -> tensor<2x8x8x32xbf16>
  %3 = "burn.cast"(%q) {dtype = "bfloat16"} : (tensor<24x32x3x3xf32>) -> tensor<24x32x3x3xbf16>
  %4 = "burn.transpose"(%3) {permutation = array<i64: 2, 3, 1, 0>} : (tensor<24x32x3x3xbf16>) -> tensor<3x3x32x24xbf16>
  %5 = "burn.conv"(%2, %4) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["1", "1"], layout = "last", low = ["1", "1"], strides = array<i64: 1, 1>} : (tensor<2x8x8x32xbf16>, tensor<3x3x32x24xbf16>) -> tensor<2x8x8x24xbf16>
  %6 = "burn.slice"(%3) {starts = ["0", "0", "2", "2"], sizes = ["24", "32", "3", "3"], steps = array<i64: 1, 1, -1, -1>} : (tensor<24x32x3x3xbf16>) -> tensor<24x32x3x3xbf16>
  %7 = "burn.transpose"(%6) {permutation = array<i64: 2, 3, 0, 1>} : (tensor<24x32x3x3xbf16>) -> tensor<3x3x24x32xbf16>
  %8 = "burn.conv"(%5, %7) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["1", "1"], layout = "last", low = ["1", "1"], strides = array<i64: 1, 1>} : (tensor<2x8x8x24xbf16>, tensor<3x3x24x32xbf16>) -> tensor<2x8x8x32xbf16>
  %9 = "burn.slice"(%0) {starts = ["0", "0", "2", "2"], sizes = ["32", "16", "3", "3"], steps = array<i64: 1, 1, -1, -1>} : (tensor<32x16x3x3xbf16>) -> tensor<32x16x3x3xbf16>
  %10 = "burn.transpose"(%9) {permutation = array<i64: 2, 3, 0, 1>} : (tensor<32x16x3x3xbf16>) -> tensor<3x3x32x16xbf16>
  %11 = "burn.conv"(%8, %10) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["1", "1"], layout = "last", low = ["1", "1"], strides = array<i64: 1, 1>} : (tensor<2x8x8x32xbf16>, tensor<3x3x32x16xbf16>) -> tensor<2x8x8x16xbf16>
  "burn.return"(%5, %11) : (tensor<2x8x8x24xbf16>, tensor<2x8x8x16xbf16>) -> ()
}
// CHECK: burn.cast
// CHECK: kind = "foreach"
// CHECK-COUNT-4: burn.transpose
// CHECK: kind = "foreach"
// CHECK-NOT: burn.transpose
// CHECK: burn.return
