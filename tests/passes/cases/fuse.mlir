// passes: decompose,fuse

// ----- a softmax and what comes before it are one kernel
// rounds
func.func @main(%x: tensor<?x10xf32, ["n", "10"]>, %b: tensor<10xf32>) -> tensor<?x10xf32, ["n", "10"]> {
  %0 = "burn.add"(%x, %b) : (tensor<?x10xf32, ["n", "10"]>, tensor<10xf32>) -> tensor<?x10xf32, ["n", "10"]>
  %1 = "burn.softmax"(%0) {axis = -1 : i64} : (tensor<?x10xf32, ["n", "10"]>) -> tensor<?x10xf32, ["n", "10"]>
  "burn.return"(%1) : (tensor<?x10xf32, ["n", "10"]>) -> ()
}
// CHECK: burn.group
// CHECK: burn.add
// CHECK: burn.exp
// CHECK: burn.div
// CHECK: kind = "reduce"
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- a product takes its bias and activation along, and stores in the order of the transpose behind it
// rounds
func.func @main(%x: tensor<6x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<8x6xf32> {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  %1 = "burn.add"(%0, %b) : (tensor<6x8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
  %2 = "burn.tanh"(%1) : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %3 = "burn.transpose"(%2) {permutation = array<i64: 1, 0>} : (tensor<6x8xf32>) -> tensor<8x6xf32>
  "burn.return"(%3) : (tensor<8x6xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.dot_general
// CHECK: burn.tanh
// CHECK: burn.transpose
// CHECK: kind = "contract"
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- an op that reads a library call's result cannot join a group that the call needs
func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {
  %0 = "burn.neg"(%x) : (tensor<5xf32>) -> tensor<5xf32>
  %1:2 = "burn.sort"(%0) {axis = 0 : i64, descending = false} : (tensor<5xf32>) -> (tensor<5xf32>, tensor<5xi64>)
  %2 = "burn.add"(%0, %1#0) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  "burn.return"(%2) : (tensor<5xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.sort
// CHECK: burn.group

// ----- what nothing reads makes no group
func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {
  %0 = "burn.neg"(%x) : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "burn.exp"(%0) : (tensor<5xf32>) -> tensor<5xf32>
  %2 = "burn.tanh"(%x) : (tensor<5xf32>) -> tensor<5xf32>
  "burn.return"(%2) : (tensor<5xf32>) -> ()
}
// CHECK-NOT: burn.exp
// CHECK: burn.tanh
// CHECK: burn.return

// ----- loops that meet become one, also where something else reads one of them
// rounds
func.func @main(%x: tensor<?x7xf32, ["n", "7"]>, %y: tensor<?x7xf32, ["n", "7"]>) -> (tensor<?x7xf32, ["n", "7"]>, tensor<?x7xf32, ["n", "7"]>) {
  %0 = "burn.tanh"(%x) : (tensor<?x7xf32, ["n", "7"]>) -> tensor<?x7xf32, ["n", "7"]>
  %1 = "burn.exp"(%y) : (tensor<?x7xf32, ["n", "7"]>) -> tensor<?x7xf32, ["n", "7"]>
  %2 = "burn.mul"(%0, %1) : (tensor<?x7xf32, ["n", "7"]>, tensor<?x7xf32, ["n", "7"]>) -> tensor<?x7xf32, ["n", "7"]>
  "burn.return"(%2, %1) : (tensor<?x7xf32, ["n", "7"]>, tensor<?x7xf32, ["n", "7"]>) -> ()
}
// CHECK: burn.group
// CHECK: burn.tanh
// CHECK: burn.exp
// CHECK: burn.mul
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- but not around what stands between them
func.func @main(%x: tensor<5xf32>, %y: tensor<5xf32>) -> tensor<5xf32> {
  %0 = "burn.neg"(%x) : (tensor<5xf32>) -> tensor<5xf32>
  %1:2 = "burn.sort"(%0) {axis = 0 : i64, descending = false} : (tensor<5xf32>) -> (tensor<5xf32>, tensor<5xi64>)
  %2 = "burn.add"(%1#0, %y) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %3 = "burn.mul"(%2, %0) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  "burn.return"(%3) : (tensor<5xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.neg
// CHECK: burn.sort
// CHECK: burn.group
// CHECK: burn.add
// CHECK: burn.mul

// ----- loops over what is spread out meet, too
func.func @main(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> tensor<8x3xf32> {
  %0 = "burn.full"() {shape = [], dtype = "float32", value = 0.0 : f64} : () -> tensor<f32>
  %1 = "burn.pad"(%x, %0) {low = ["0", "0"], high = ["1", "0"], interior = array<i64: 1, 0>} : (tensor<4x3xf32>, tensor<f32>) -> tensor<8x3xf32>
  %2 = "burn.exp"(%1) : (tensor<8x3xf32>) -> tensor<8x3xf32>
  %3 = "burn.pad"(%y, %0) {low = ["1", "0"], high = ["0", "0"], interior = array<i64: 1, 0>} : (tensor<4x3xf32>, tensor<f32>) -> tensor<8x3xf32>
  %4 = "burn.add"(%2, %3) : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x3xf32>
  "burn.return"(%4) : (tensor<8x3xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.pad
// CHECK: burn.pad
// CHECK: burn.add
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- what is turned for a loop over many others is turned by a loop of its own
func.func @main(%g: tensor<150x160xf32>, %p: tensor<160x150xf32>, %m: tensor<160x150xf32>) -> (tensor<160x150xf32>, tensor<160x150xf32>) {
  %0 = "burn.transpose"(%g) {permutation = array<i64: 1, 0>} : (tensor<150x160xf32>) -> tensor<160x150xf32>
  %1 = "burn.add"(%m, %0) : (tensor<160x150xf32>, tensor<160x150xf32>) -> tensor<160x150xf32>
  %2 = "burn.sub"(%p, %1) : (tensor<160x150xf32>, tensor<160x150xf32>) -> tensor<160x150xf32>
  "burn.return"(%1, %2) : (tensor<160x150xf32>, tensor<160x150xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.transpose
// CHECK: burn.yield
// CHECK: burn.group
// CHECK: burn.add
// CHECK: burn.sub
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- for a loop over few it is turned on the way
func.func @main(%g: tensor<150x160xf32>, %p: tensor<160x150xf32>) -> tensor<160x150xf32> {
  %0 = "burn.transpose"(%g) {permutation = array<i64: 1, 0>} : (tensor<150x160xf32>) -> tensor<160x150xf32>
  %1 = "burn.add"(%p, %0) : (tensor<160x150xf32>, tensor<160x150xf32>) -> tensor<160x150xf32>
  "burn.return"(%1) : (tensor<160x150xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.transpose
// CHECK-NEXT: burn.add
// CHECK-NOT: burn.group

// ----- behind another view it is turned on the way, whatever the loop
func.func @main(%g: tensor<150x160xf32>, %p: tensor<240x100xf32>, %m: tensor<240x100xf32>) -> (tensor<240x100xf32>, tensor<240x100xf32>) {
  %0 = "burn.transpose"(%g) {permutation = array<i64: 1, 0>} : (tensor<150x160xf32>) -> tensor<160x150xf32>
  %1 = "burn.reshape"(%0) {shape = ["240", "100"]} : (tensor<160x150xf32>) -> tensor<240x100xf32>
  %2 = "burn.add"(%m, %1) : (tensor<240x100xf32>, tensor<240x100xf32>) -> tensor<240x100xf32>
  %3 = "burn.sub"(%p, %2) : (tensor<240x100xf32>, tensor<240x100xf32>) -> tensor<240x100xf32>
  "burn.return"(%2, %3) : (tensor<240x100xf32>, tensor<240x100xf32>) -> ()
}
// CHECK-COUNT-1: burn.group
// CHECK-NOT: burn.group

// ----- what is summed of a product's multiple, and of the product itself: the product alone is stored
// rounds
func.func @main(%x: tensor<6x4xf32>, %w: tensor<4x8xf32>, %y: tensor<6x8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  %1 = "burn.mul"(%0, %y) : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %2 = "burn.reduce"(%0) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<6x8xf32>) -> tensor<8xf32>
  %3 = "burn.reduce"(%1) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<6x8xf32>) -> tensor<8xf32>
  "burn.return"(%2, %3) : (tensor<8xf32>, tensor<8xf32>) -> ()
}
// CHECK: burn.dot_general
// CHECK-NEXT: burn.yield
// CHECK-NEXT: kind = "contract"
// CHECK-DAG: burn.mul
// CHECK-COUNT-2: kind = "reduce"

// ----- of a product that nothing else sums, what is summed goes along
func.func @main(%x: tensor<6x4xf32>, %w: tensor<4x8xf32>, %y: tensor<6x8xf32>) -> tensor<8xf32> {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  %1 = "burn.mul"(%0, %y) : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %2 = "burn.reduce"(%1) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<6x8xf32>) -> tensor<8xf32>
  "burn.return"(%2) : (tensor<8xf32>) -> ()
}
// CHECK: burn.dot_general
// CHECK-NEXT: burn.mul
// CHECK: kind = "contract"
// CHECK: kind = "reduce"

// ----- a weighted sum of two gathers, as in linear interpolation, is one kernel
func.func @main(%x: tensor<3x4x5xf32>, %w: tensor<6x1xf32>) -> tensor<3x6x5xf32> {
  %i = "burn.constant"() {bits = array<i64: 0, 0, 1, 1, 2, 2>, dtype = "int64", shape = ["6"], values = array<f64: 0.0, 0.0, 1.0, 1.0, 2.0, 2.0>} : () -> tensor<6xi64>
  %j = "burn.constant"() {bits = array<i64: 1, 1, 2, 2, 3, 3>, dtype = "int64", shape = ["6"], values = array<f64: 1.0, 1.0, 2.0, 2.0, 3.0, 3.0>} : () -> tensor<6xi64>
  %0 = "burn.gather"(%x, %i) {axis = 1 : i64} : (tensor<3x4x5xf32>, tensor<6xi64>) -> tensor<3x6x5xf32>
  %1 = "burn.mul"(%0, %w) : (tensor<3x6x5xf32>, tensor<6x1xf32>) -> tensor<3x6x5xf32>
  %2 = "burn.gather"(%x, %j) {axis = 1 : i64} : (tensor<3x4x5xf32>, tensor<6xi64>) -> tensor<3x6x5xf32>
  %3 = "burn.sub"(%2, %w) : (tensor<3x6x5xf32>, tensor<6x1xf32>) -> tensor<3x6x5xf32>
  %4 = "burn.add"(%1, %3) : (tensor<3x6x5xf32>, tensor<3x6x5xf32>) -> tensor<3x6x5xf32>
  "burn.return"(%4) : (tensor<3x6x5xf32>) -> ()
}
// CHECK: burn.group
// CHECK-COUNT-2: burn.gather
// CHECK: kind = "loop"
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- a reduction of a whole tensor runs in blocks and takes along what nothing else reads
// rounds
func.func @main(%x: tensor<300x400xf32>, %y: tensor<400xf32>) -> tensor<f32> {
  %0 = "burn.sub"(%x, %y) : (tensor<300x400xf32>, tensor<400xf32>) -> tensor<300x400xf32>
  %1 = "burn.mul"(%0, %0) : (tensor<300x400xf32>, tensor<300x400xf32>) -> tensor<300x400xf32>
  %2 = "burn.reduce"(%1) {axes = array<i64: 0, 1>, keepdims = false, kind = "sum"} : (tensor<300x400xf32>) -> tensor<f32>
  "burn.return"(%2) : (tensor<f32>) -> ()
}
// CHECK-COUNT-1: burn.group
// CHECK: burn.sub
// CHECK: kind = "reduce"
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- a short one runs on one thread, and what another op reads is written anyway
// rounds
func.func @main(%x: tensor<30x40xf32>, %y: tensor<300x400xf32>) -> (tensor<f32>, tensor<f32>, tensor<400x300xf32>) {
  %0 = "burn.exp"(%x) : (tensor<30x40xf32>) -> tensor<30x40xf32>
  %1 = "burn.reduce"(%0) {axes = array<i64: 0, 1>, keepdims = false, kind = "sum"} : (tensor<30x40xf32>) -> tensor<f32>
  %2 = "burn.exp"(%y) : (tensor<300x400xf32>) -> tensor<300x400xf32>
  %3 = "burn.reduce"(%2) {axes = array<i64: 0, 1>, keepdims = false, kind = "sum"} : (tensor<300x400xf32>) -> tensor<f32>
  %4 = "burn.transpose"(%2) {permutation = array<i64: 1, 0>} : (tensor<300x400xf32>) -> tensor<400x300xf32>
  "burn.return"(%1, %3, %4) : (tensor<f32>, tensor<f32>, tensor<400x300xf32>) -> ()
}
// CHECK-COUNT-5: burn.group
// CHECK-NOT: burn.group
