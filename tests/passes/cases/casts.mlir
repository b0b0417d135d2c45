// passes: simplify

// ----- wider and back
// inputs: special
func.func @main(%x: tensor<40xf16>) -> tensor<40xf16> {
  %0 = "burn.cast"(%x) {dtype = "float32", saturate = true} : (tensor<40xf16>) -> tensor<40xf32>
  %1 = "burn.cast"(%0) {dtype = "float16", saturate = true} : (tensor<40xf32>) -> tensor<40xf16>
  "burn.return"(%1) : (tensor<40xf16>) -> ()
}
// CHECK-NOT: burn.cast

// ----- narrower and back stays
func.func @main(%x: tensor<40xf32>) -> tensor<40xf32> {
  %0 = "burn.cast"(%x) {dtype = "float16", saturate = true} : (tensor<40xf32>) -> tensor<40xf16>
  %1 = "burn.cast"(%0) {dtype = "float32", saturate = true} : (tensor<40xf16>) -> tensor<40xf32>
  "burn.return"(%1) : (tensor<40xf32>) -> ()
}
// CHECK-COUNT-2: burn.cast

// ----- through a wider integer
func.func @main(%x: tensor<40xi8>) -> tensor<40xf32> {
  %0 = "burn.cast"(%x) {dtype = "int64", saturate = true} : (tensor<40xi8>) -> tensor<40xi64>
  %1 = "burn.cast"(%0) {dtype = "float32", saturate = true} : (tensor<40xi64>) -> tensor<40xf32>
  "burn.return"(%1) : (tensor<40xf32>) -> ()
}
// CHECK-COUNT-1: "burn.cast"(%arg0) {dtype = "float32"
// CHECK-NEXT: burn.return

// ----- comparing a converted bool with zero
func.func @main(%x: tensor<40xi1>) -> (tensor<40xi1>, tensor<40xi1>) {
  %z = "burn.full"() {bits = 0 : i64, dtype = "int64", shape = []} : () -> tensor<i64>
  %0 = "burn.cast"(%x) {dtype = "int64", saturate = true} : (tensor<40xi1>) -> tensor<40xi64>
  %1 = "burn.ne"(%0, %z) : (tensor<40xi64>, tensor<i64>) -> tensor<40xi1>
  %2 = "burn.eq"(%0, %z) : (tensor<40xi64>, tensor<i64>) -> tensor<40xi1>
  "burn.return"(%1, %2) : (tensor<40xi1>, tensor<40xi1>) -> ()
}
// CHECK: %[[N:.*]] = "burn.not"(%arg0)
// CHECK-NEXT: "burn.return"(%arg0, %[[N]])

// ----- what is kept for a second time is what has fewer bits
func.func @main(%x: tensor<3xbf16>, %y: tensor<2xf32>) -> tensor<3xf32> {
  %0 = "burn.cast"(%x) {dtype = "float32", saturate = true} : (tensor<3xbf16>) -> tensor<3xf32>
  %1 = "burn.barrier"(%0, %y) : (tensor<3xf32>, tensor<2xf32>) -> tensor<3xf32>
  "burn.return"(%1) : (tensor<3xf32>) -> ()
}
// CHECK: [[B:%.*]] = "burn.barrier"(%arg0, %arg1)
// CHECK: "burn.cast"([[B]])
