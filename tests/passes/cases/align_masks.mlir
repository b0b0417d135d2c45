// passes: align_masks

// ----- rows of a bias that all sequences read are padded once, for the forward and the backward pass
// rounds
func.func @main(%q: tensor<8x2x5x4xbf16>, %k: tensor<8x2x5x4xbf16>, %m: tensor<1x2x5x5xbf16>) -> (tensor<8x2x5x4xbf16>, tensor<8x2x5x4xbf16>) {
  %y:2 = "burn.attention_forward"(%q, %k, %k, %m) {scale = 5.0e-01 : f64, segments = array<i64: 1, 1, 1, 1, 0, 0>} : (tensor<8x2x5x4xbf16>, tensor<8x2x5x4xbf16>, tensor<8x2x5x4xbf16>, tensor<1x2x5x5xbf16>) -> (tensor<8x2x5x4xbf16>, tensor<8x2x5xf32>)
  %z = "burn.attention"(%q, %k, %k, %m) {scale = 5.0e-01 : f64, segments = array<i64: 1, 1, 1, 1, 0, 0>} : (tensor<8x2x5x4xbf16>, tensor<8x2x5x4xbf16>, tensor<8x2x5x4xbf16>, tensor<1x2x5x5xbf16>) -> tensor<8x2x5x4xbf16>
  "burn.return"(%y#0, %z) : (tensor<8x2x5x4xbf16>, tensor<8x2x5x4xbf16>) -> ()
}
// CHECK: %[[P:.+]] = "burn.pad"(%arg2
// CHECK-SAME: tensor<1x2x5x16xbf16>
// CHECK: %[[S:.+]] = "burn.slice"(%[[P]])
// CHECK-SAME: tensor<1x2x5x5xbf16>
// CHECK: "burn.attention_forward"(%arg0, %arg1, %arg1, %[[S]])
// CHECK: "burn.attention"(%arg0, %arg1, %arg1, %[[S]])
// CHECK-NOT: burn.pad

// ----- a mask of aligned rows, of one row, or of as many elements as the scores stays
func.func @main(%q: tensor<8x2x5x4xbf16>, %k: tensor<8x2x8x4xbf16>, %p: tensor<8x2x5x4xbf16>, %a: tensor<2x5x8xbf16>, %b: tensor<1x1x1x5xbf16>, %c: tensor<8x2x5x5xbf16>) -> (tensor<8x2x5x4xbf16>, tensor<8x2x5x4xbf16>, tensor<8x2x5x4xbf16>) {
  %0 = "burn.attention"(%q, %k, %k, %a) {scale = 5.0e-01 : f64, segments = array<i64: 1, 1, 1, 1, 0, 0>} : (tensor<8x2x5x4xbf16>, tensor<8x2x8x4xbf16>, tensor<8x2x8x4xbf16>, tensor<2x5x8xbf16>) -> tensor<8x2x5x4xbf16>
  %1 = "burn.attention"(%q, %p, %p, %b) {scale = 5.0e-01 : f64, segments = array<i64: 1, 1, 1, 1, 0, 0>} : (tensor<8x2x5x4xbf16>, tensor<8x2x5x4xbf16>, tensor<8x2x5x4xbf16>, tensor<1x1x1x5xbf16>) -> tensor<8x2x5x4xbf16>
  %2 = "burn.attention"(%q, %p, %p, %c) {scale = 5.0e-01 : f64, segments = array<i64: 1, 1, 1, 1, 0, 0>} : (tensor<8x2x5x4xbf16>, tensor<8x2x5x4xbf16>, tensor<8x2x5x4xbf16>, tensor<8x2x5x5xbf16>) -> tensor<8x2x5x4xbf16>
  "burn.return"(%0, %1, %2) : (tensor<8x2x5x4xbf16>, tensor<8x2x5x4xbf16>, tensor<8x2x5x4xbf16>) -> ()
}
// CHECK-NOT: burn.pad
// CHECK: burn.return
