// passes: fuse

// ----- loop: a place outside of what is padded is not read
func.func @main(%x: tensor<?xf32, ["n"]>) -> tensor<?xf32, ["n + 3"]> {
  %0 = "burn.full"() {dtype = "float32", shape = [], value = 0.5 : f64} : () -> tensor<f32>
  %1 = "burn.pad"(%x, %0) {low = ["1"], high = ["2"]} : (tensor<?xf32, ["n"]>, tensor<f32>) -> tensor<?xf32, ["n + 3"]>
  %2 = "burn.exp"(%1) : (tensor<?xf32, ["n + 3"]>) -> tensor<?xf32, ["n + 3"]>
  "burn.return"(%2) : (tensor<?xf32, ["n + 3"]>) -> ()
}
// CHECK:      # from line 2, column 8, line 3, column 8, line 4, column 8
// CHECK-NEXT: @triton.jit
// CHECK-NEXT: def kernel0(b0, b1, {{.*}}INT: tl.constexpr, ROWS: tl.constexpr):
// CHECK:      x = tl.program_id(0).to(INT) * ROWS + tl.arange(0, ROWS)
// CHECK:      here0 = ({{.*}} >= 0) & ({{.*}} < {{.*}})
// CHECK-NEXT: v0 = tl.load(b0 + {{.*}}, mask=inside & here0, other=0.0)
// CHECK-NEXT: v1 = tl.where(here0, v0, tl.full((), 0.5, tl.float32))
// CHECK-NEXT: v2 = tl.exp(v1)
// CHECK-NEXT: tl.store(b1 + x, v2, mask=inside)

// ----- loop: an index read from data is checked
func.func @main(%x: tensor<7x3xf32>, %i: tensor<4xi32>) -> tensor<4x3xf32> {
  %0 = "burn.gather"(%x, %i) {axis = 0 : i64} : (tensor<7x3xf32>, tensor<4xi32>) -> tensor<4x3xf32>
  "burn.return"(%0) : (tensor<4x3xf32>) -> ()
}
// CHECK: def report(failure, site, index, bad):
// CHECK: def kernel0(b0, b1, b2, failure, INT: tl.constexpr, ROWS: tl.constexpr):
// CHECK: bad0 = (at0 < 0) | (at0 >= 7)
// CHECK-NEXT: report(failure, 281474976710656, v1, bad0 & inside)
// CHECK-NEXT: at1 = tl.where(bad0, 0, at0)
// CHECK-NEXT: tl.load(b1 + (at1 * 3 + {{.*}}), mask=inside, other=0.0)

// ----- reduce: a short row is read once
func.func @main(%x: tensor<?x10xf32, ["n", "10"]>) -> tensor<?x10xf32, ["n", "10"]> {
  %0 = "burn.reduce"(%x) {kind = "max", axes = array<i64: 1>, keepdims = true} : (tensor<?x10xf32, ["n", "10"]>) -> tensor<?x1xf32, ["n", "1"]>
  %1 = "burn.sub"(%x, %0) : (tensor<?x10xf32, ["n", "10"]>, tensor<?x1xf32, ["n", "1"]>) -> tensor<?x10xf32, ["n", "10"]>
  "burn.return"(%1) : (tensor<?x10xf32, ["n", "10"]>) -> ()
}
// CHECK:      tl.load(b0 + (x * 10 + r0), mask=inside & within0, other=0.0)
// CHECK:      max0 = tl.reduce({{.*}}, 1, greatest)[:, None]
// CHECK-NEXT: v2 = v0 - max0
// CHECK-NOT:  tl.load
// CHECK:      tl.store(b1 + (x * 10 + r0), v2, mask=inside & within0)

// ----- reduce: a long row is taken block by block
func.func @main(%x: tensor<3x?xf32, ["3", "n"]>) -> tensor<3xf32> {
  %0 = "burn.reduce"(%x) {kind = "sum", axes = array<i64: 1>, keepdims = false} : (tensor<3x?xf32, ["3", "n"]>) -> tensor<3xf32>
  "burn.return"(%0) : (tensor<3xf32>) -> ()
}
// CHECK:      total0 = tl.full([ROWS, COLUMNS], 0.0, tl.float32)
// CHECK-NEXT: for start in tl.range(0, {{.*}}, COLUMNS, num_stages={{[0-9]+}}):
// CHECK:        total0 = add(total0, {{.*}})
// CHECK:      sum0 = tl.sum(total0, 1)[:, None]

// ----- contraction: block products and what follows them
func.func @main(%x: tensor<?x32xf32, ["n", "32"]>, %w: tensor<32x20xf32>, %b: tensor<20xf32>) -> tensor<?x20xf32, ["n", "20"]> {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x32xf32, ["n", "32"]>, tensor<32x20xf32>) -> tensor<?x20xf32, ["n", "20"]>
  %1 = "burn.add"(%0, %b) : (tensor<?x20xf32, ["n", "20"]>, tensor<20xf32>) -> tensor<?x20xf32, ["n", "20"]>
  "burn.return"(%1) : (tensor<?x20xf32, ["n", "20"]>) -> ()
}
// CHECK:      for start in range(0, {{.*}}, DEPTH):
// CHECK:        total = tl.dot(left0, right0, total, input_precision="ieee")
// CHECK-NEXT: v{{.*}} = tl.load(b{{.*}} + y, mask=inside_y0, other=0.0)
// CHECK-NEXT: v{{.*}} = total + v{{.*}}
// CHECK-NEXT: tl.store({{.*}}, mask=inside_x0 & inside_y0)

// ----- contraction: half precision is kept for the block products, and tiles that come out even need no mask
func.func @main(%x: tensor<256x256xf16>, %w: tensor<256x256xf16>) -> tensor<256x256xf16> {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<256x256xf16>, tensor<256x256xf16>) -> tensor<256x256xf16>
  "burn.return"(%0) : (tensor<256x256xf16>) -> ()
}
// CHECK-NOT:  mask
// CHECK:        left0 = tl.broadcast_to(v0, [ROWS, DEPTH])
// CHECK:        total = tl.dot(left0, right0, total, input_precision="ieee")
// CHECK-NOT:  mask

// ----- attention: an online softmax over the keys
func.func @main(%q: tensor<1x2x?x16xf32, ["1", "2", "n", "16"]>, %k: tensor<1x2x?x16xf32, ["1", "2", "m", "16"]>, %v: tensor<1x2x?x16xf32, ["1", "2", "m", "16"]>) -> tensor<1x2x?x16xf32, ["1", "2", "n", "16"]> {
  %0 = "burn.attention"(%q, %k, %v) {scale = 0.25 : f64, causal = true, segments = array<i64: 1, 1, 1, 0, 0, 0>} : (tensor<1x2x?x16xf32, ["1", "2", "n", "16"]>, tensor<1x2x?x16xf32, ["1", "2", "m", "16"]>, tensor<1x2x?x16xf32, ["1", "2", "m", "16"]>) -> tensor<1x2x?x16xf32, ["1", "2", "n", "16"]>
  "burn.return"(%0) : (tensor<1x2x?x16xf32, ["1", "2", "n", "16"]>) -> ()
}
// CHECK:      for start in range(0, end0, KEYS):
// CHECK-NOT:    tl.where
// CHECK:        total = tl.dot(p.to(tl.float32), values0, total * fade, input_precision="ieee")
// CHECK:      for start in range(end0, stop1, KEYS):
// CHECK:        score = tl.where(within1, {{.*}}, float("-inf"))
// CHECK:        higher = tl.maximum(top, tl.max(score, 1)[:, None] * 0.25)
// CHECK:        p = tl.exp(score * 0.25 - shift)
// CHECK:        total = tl.dot(p.to(tl.float32), values1, total * fade, input_precision="ieee")
// CHECK:      total = tl.where(weight == 0, 0.0, total / weight)

// ----- sequential: one place after another
func.func @main(%x: tensor<5x?xf32, ["5", "n"]>) -> tensor<5x?xf32, ["5", "n"]> {
  %0 = "burn.cumulative"(%x) {kind = "sum", axis = 1 : i64, exclusive = false, reverse = false} : (tensor<5x?xf32, ["5", "n"]>) -> tensor<5x?xf32, ["5", "n"]>
  "burn.return"(%0) : (tensor<5x?xf32, ["5", "n"]>) -> ()
}
// CHECK:      for step in range(0, {{.*}}):
// CHECK:        tl.store(b0 + {{.*}}, mask=inside)
// CHECK-NEXT:   tl.debug_barrier()

// ----- half precision is computed in float32
func.func @main(%x: tensor<?xf16, ["n"]>) -> tensor<?xf16, ["n"]> {
  %0 = "burn.tanh"(%x) : (tensor<?xf16, ["n"]>) -> tensor<?xf16, ["n"]>
  "burn.return"(%0) : (tensor<?xf16, ["n"]>) -> ()
}
// CHECK: v1 = (libdevice.tanh(v0.to(tl.float32))).to(tl.float16)

// ----- reduce: what does not vary along a row is read in front of it
func.func @main(%x: tensor<3x?xf32, ["3", "n"]>, %s: tensor<3x1xf32>) -> tensor<3xf32> {
  %0 = "burn.mul"(%x, %s) : (tensor<3x?xf32, ["3", "n"]>, tensor<3x1xf32>) -> tensor<3x?xf32, ["3", "n"]>
  %1 = "burn.reduce"(%0) {kind = "max", axes = array<i64: 1>, keepdims = false} : (tensor<3x?xf32, ["3", "n"]>) -> tensor<3xf32>
  "burn.return"(%1) : (tensor<3xf32>) -> ()
}
// CHECK:      tl.load(b{{.*}} + x)
// CHECK:      for start in tl.range(0, {{.*}}, COLUMNS, num_stages={{[0-9]+}}):
// CHECK:        tl.load(b{{.*}}, mask=within0, other=0.0)
// CHECK:        total0 = greatest(total0, {{.*}})

// ----- loop: every load is before the first store, over which the compiler moves none
func.func @main(%x: tensor<?xf32, ["n"]>, %y: tensor<?xf32, ["n"]>) -> (tensor<?xf32, ["n"]>, tensor<?xf32, ["n"]>) {
  %0 = "burn.neg"(%x) : (tensor<?xf32, ["n"]>) -> tensor<?xf32, ["n"]>
  %1 = "burn.mul"(%0, %y) : (tensor<?xf32, ["n"]>, tensor<?xf32, ["n"]>) -> tensor<?xf32, ["n"]>
  "burn.return"(%0, %1) : (tensor<?xf32, ["n"]>, tensor<?xf32, ["n"]>) -> ()
}
// CHECK-COUNT-2: tl.load(b{{.*}} + x
// CHECK-COUNT-2: tl.store(
// CHECK-NOT:     tl.load(b

// ----- reduce: the tensors that a sum's result is combined with are loaded before the sum
func.func @main(%x: tensor<3x?xf32, ["3", "n"]>, %s: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "burn.reduce"(%x) {kind = "sum", axes = array<i64: 1>, keepdims = false} : (tensor<3x?xf32, ["3", "n"]>) -> tensor<3xf32>
  %1 = "burn.mul"(%0, %s) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  "burn.return"(%1) : (tensor<3xf32>) -> ()
}
// CHECK:      [[S:v[0-9]+]] = tl.load(b{{.*}} + x
// CHECK:      for start in tl.range(
// CHECK:      sum0 = tl.sum(
// CHECK-NOT:  tl.load
// CHECK:      sum0 * [[S]]
// CHECK:      tl.store(

// ----- numbers of a few bits are codes
func.func @main(%x: tensor<?xf32, ["n"]>) -> tensor<?xf8E5M2, ["n"]> {
  %0 = "burn.cast"(%x) {dtype = "float8_e5m2", saturate = true} : (tensor<?xf32, ["n"]>) -> tensor<?xf8E5M2, ["n"]>
  "burn.return"(%0) : (tensor<?xf8E5M2, ["n"]>) -> ()
}
// CHECK: def to_small(
// CHECK: v1 = to_small(v0, 8, 2, 15, 123, 126, 124, False, 123)
// CHECK: tl.store(b1 + x, v1, mask=inside)

// ----- loop: a transpose goes through a block of both axes
func.func @main(%x: tensor<?x70xf32, ["n", "70"]>) -> tensor<70x?xf32, ["70", "n"]> {
  %0 = "burn.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<?x70xf32, ["n", "70"]>) -> tensor<70x?xf32, ["70", "n"]>
  %1 = "burn.exp"(%0) : (tensor<70x?xf32, ["70", "n"]>) -> tensor<70x?xf32, ["70", "n"]>
  "burn.return"(%1) : (tensor<70x?xf32, ["70", "n"]>) -> ()
}
// CHECK:      x = (program0 % blocks0) * ROWS + tl.arange(0, ROWS)[None, :]
// CHECK:      y = (program1 % blocks1) * COLUMNS + tl.arange(0, COLUMNS)[:, None]
// CHECK:      v0 = tl.load(b0 + ({{.*}} * x + y), mask=inside_x & inside_y, other=0.0)
// CHECK:      tl.store(b1 + ({{.*}} * y + x), v1, mask=inside_x & inside_y)

// ----- reduce: columns lie along the block's last axis, their partial results in a row
func.func @main(%x: tensor<?x48xf32, ["n", "48"]>) -> tensor<48xf32> {
  %0 = "burn.reduce"(%x) {kind = "max", axes = array<i64: 0>, keepdims = false} : (tensor<?x48xf32, ["n", "48"]>) -> tensor<48xf32>
  "burn.return"(%0) : (tensor<48xf32>) -> ()
}
// CHECK:      x = tl.program_id(0).to(INT) * ROWS + tl.arange(0, ROWS)[None, :]
// CHECK:      r0 = (tl.arange(0, COLUMNS)[:, None]).to(INT)
// CHECK:      max0 = tl.reduce(v4, 0, greatest)[None, :]
// CHECK:      tl.store(b1 + (_8 * i0 + q0), max0, mask=inside)
// CHECK-LABEL: def kernel1(
// CHECK:      r0 = (start + tl.arange(0, COLUMNS)[None, :]).to(INT)
// CHECK:      v0 = tl.load(b1 + (_3 * x + r0)
// CHECK:      max0 = tl.reduce(total0, 1, greatest)[:, None]

// ----- contraction: a padded convolution of float16 reads zeros outside, found once for a block of channels
func.func @main(%x: tensor<1x9x9x64xf16>, %w: tensor<3x3x64x64xf16>) -> tensor<1x9x9x64xf16> {
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 1 : i64, layout = "last"} : (tensor<1x9x9x64xf16>, tensor<3x3x64x64xf16>) -> tensor<1x9x9x64xf16>
  "burn.return"(%0) : (tensor<1x9x9x64xf16>) -> ()
}
// CHECK:        first0 = tl.multiple_of(start % {{.*}}, DEPTH)
// CHECK-NEXT:   k1 = (first0 + tl.arange(0, DEPTH)).to(INT)[None, :]
// CHECK-NEXT:   tap0 = start // {{.*}}
// CHECK:        tl.load({{.*}}, mask={{.*}}here0, other=0.0)
// CHECK-NOT:    tl.where
// CHECK:        total = tl.dot(left0, right0, total, input_precision="ieee")

// ----- contraction: a weight's gradient is summed in parts of the depth, which a loop adds
func.func @main(%x: tensor<64x30x30x32xf16>, %g: tensor<64x28x28x64xf16>) -> tensor<3x3x32x64xf16> {
  %0 = "burn.windows"(%x) {axis = 1 : i64, window = array<i64: 3, 3>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>} : (tensor<64x30x30x32xf16>) -> tensor<64x28x28x3x3x32xf16>
  %1 = "burn.dot_general"(%0, %g) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0, 1, 2>, rhs_contract = array<i64: 0, 1, 2>} : (tensor<64x28x28x3x3x32xf16>, tensor<64x28x28x64xf16>) -> tensor<3x3x32x64xf16>
  "burn.return"(%1) : (tensor<3x3x32x64xf16>) -> ()
}
// CHECK:        batch0 = program // (across * down)
// CHECK:        tl.load(b0 + {{.*}}batch0
// CHECK:        tl.load(b1 + {{.*}}batch0
// CHECK:        total = tl.dot(left0, right0, total, input_precision="ieee")
// CHECK:        tl.store(b2 + {{.*}}batch0{{.*}}, total, mask=inside_x0)
// CHECK-LABEL:  def kernel1(
// CHECK:        sum0 = tl.sum(
// CHECK:        tl.store(b0 + x, v2)

// ----- contraction: a weight's gradient in parts of a batch with a name, whose masks leave zeros
func.func @main(%x: tensor<?x128x256xbf16, ["n", "128", "256"]>, %g: tensor<?x128x256xbf16, ["n", "128", "256"]>) -> tensor<256x256xbf16> {
  %0 = "burn.dot_general"(%x, %g) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0, 1>, rhs_contract = array<i64: 0, 1>} : (tensor<?x128x256xbf16, ["n", "128", "256"]>, tensor<?x128x256xbf16, ["n", "128", "256"]>) -> tensor<256x256xbf16>
  "burn.return"(%0) : (tensor<256x256xbf16>) -> ()
}
// CHECK:        tl.load(b0 + {{.*}}, mask={{.*}}within0 & here0, other=0.0)
// CHECK-NOT:    tl.where
// CHECK:        total = tl.dot(left0, right0, total, input_precision="ieee")

// ----- window: neighbours are read side by side, one tap after another
func.func @main(%x: tensor<2x9x9x32xf16>) -> tensor<2x4x4x32xf16> {
  %0 = "burn.window_reduce"(%x) {kind = "max", window = array<i64: 1, 2, 2, 1>, strides = array<i64: 1, 2, 2, 1>, dilations = array<i64: 1, 1, 1, 1>, low = ["0", "0", "0", "0"], high = ["0", "0", "0", "0"]} : (tensor<2x9x9x32xf16>) -> tensor<2x4x4x32xf16>
  "burn.return"(%0) : (tensor<2x4x4x32xf16>) -> ()
}
// CHECK:        x = tl.program_id(0).to(INT) * ROWS + tl.arange(0, ROWS)
// CHECK:        for step in tl.static_range(4):
// CHECK:        v0 = tl.load(b0 + {{.*}})
// CHECK:        total0 = greatest(total0, {{v[0-9]+}}.to(tl.float32))

// ----- windows that overlap: a thread loads an element once for all of its results
func.func @main(%x: tensor<64x112x112x64xf16>) -> tensor<64x112x112x64xf16> {
  %0 = "burn.window_reduce"(%x) {kind = "max", window = array<i64: 1, 3, 3, 1>, strides = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1, 1, 1>, low = ["0", "1", "1", "0"], high = ["0", "1", "1", "0"]} : (tensor<64x112x112x64xf16>) -> tensor<64x112x112x64xf16>
  "burn.return"(%0) : (tensor<64x112x112x64xf16>) -> ()
}
// CHECK:        x = tl.program_id(0).to(INT) * ROWS + tl.arange(0, ROWS)
// CHECK:        total1 = tl.full([ROWS], float("-inf"), tl.float32)
// CHECK:        [[X:v[0-9]+]] = tl.where(here1, {{.*}}, tl.full((), float("-inf"), tl.float32))
// CHECK-NEXT:   total1 = greatest(total1, [[X]])
// CHECK:        total0 = greatest(total0, [[X]])

// ----- attention and its backward pass: norms are kept, and keys go over the rows of every head that they serve
func.func @main(%q: tensor<1x4x?x16xbf16, ["1", "4", "n", "16"]>, %k: tensor<1x2x?x16xbf16, ["1", "2", "n", "16"]>, %v: tensor<1x2x?x16xbf16, ["1", "2", "n", "16"]>, %g: tensor<1x4x?x16xbf16, ["1", "4", "n", "16"]>) -> (tensor<1x4x?x16xbf16, ["1", "4", "n", "16"]>, tensor<1x4x?x16xbf16, ["1", "4", "n", "16"]>, tensor<1x2x?x16xbf16, ["1", "2", "n", "16"]>, tensor<1x2x?x16xbf16, ["1", "2", "n", "16"]>) {
  %0:2 = "burn.attention_forward"(%q, %k, %v) {scale = 0.25 : f64, causal = true, segments = array<i64: 1, 1, 1, 0, 0, 0>} : (tensor<1x4x?x16xbf16, ["1", "4", "n", "16"]>, tensor<1x2x?x16xbf16, ["1", "2", "n", "16"]>, tensor<1x2x?x16xbf16, ["1", "2", "n", "16"]>) -> (tensor<1x4x?x16xbf16, ["1", "4", "n", "16"]>, tensor<1x4x?xf32, ["1", "4", "n"]>)
  %1:3 = "burn.attention_backward"(%q, %k, %v, %0#0, %0#1, %g) {scale = 0.25 : f64, causal = true, segments = array<i64: 1, 1, 1, 0, 0, 0, 1, 1, 1>} : (tensor<1x4x?x16xbf16, ["1", "4", "n", "16"]>, tensor<1x2x?x16xbf16, ["1", "2", "n", "16"]>, tensor<1x2x?x16xbf16, ["1", "2", "n", "16"]>, tensor<1x4x?x16xbf16, ["1", "4", "n", "16"]>, tensor<1x4x?xf32, ["1", "4", "n"]>, tensor<1x4x?x16xbf16, ["1", "4", "n", "16"]>) -> (tensor<1x4x?x16xbf16, ["1", "4", "n", "16"]>, tensor<1x2x?x16xbf16, ["1", "2", "n", "16"]>, tensor<1x2x?x16xbf16, ["1", "2", "n", "16"]>)
  "burn.return"(%0#0, %1#0, %1#1, %1#2) : (tensor<1x4x?x16xbf16, ["1", "4", "n", "16"]>, tensor<1x4x?x16xbf16, ["1", "4", "n", "16"]>, tensor<1x2x?x16xbf16, ["1", "2", "n", "16"]>, tensor<1x2x?x16xbf16, ["1", "2", "n", "16"]>) -> ()
}
// CHECK:      norm = tl.where(weight == 0, float("-inf"), top + tl.log2(weight))
// CHECK:      """The gradients of a block of rows each."""
// CHECK:      x = (down - 1 - program % down) * ROWS
// CHECK:      for start in range(0, end0, KEYS):
// CHECK:        p = tl.exp2({{.*}} - v{{[0-9]+}})
// CHECK-NEXT:   slope = p * (tl.dot(own1, tl.trans(other1), {{.*}}) - {{.*}})
// CHECK-NEXT:   total = tl.dot(slope.to(tl.bfloat16), other0, total, input_precision="ieee")
// CHECK:      """The gradients of a block of keys and values each."""
// CHECK:      for head0 in range(0, 2):
// CHECK:        for start in range(first{{.*}}, begin{{.*}}, ROWS):
// CHECK:          mixed = tl.dot(p.to(tl.bfloat16), {{.*}}, mixed, input_precision="ieee")
// CHECK:        for start in range(begin{{.*}}, ROWS):

// ----- scatter: updates of one place lie in a row, whose end is read from data
func.func @main(%x: tensor<9x64xf32>, %i: tensor<?x1xi64, ["n", "1"]>, %u: tensor<?x64xf32, ["n", "64"]>) -> tensor<9x64xf32> {
  %0 = "burn.scatter_nd"(%x, %i, %u) {reduction = "add"} : (tensor<9x64xf32>, tensor<?x1xi64, ["n", "1"]>, tensor<?x64xf32, ["n", "64"]>) -> tensor<9x64xf32>
  "burn.return"(%0) : (tensor<9x64xf32>) -> ()
}
// CHECK-NOT:  for step
// CHECK:      longest0 = tl.max(tl.reshape(end0, [ROWS]), 0)
// CHECK-NEXT: for start in range(0, longest0, COLUMNS):
// CHECK:      sum0 = tl.sum(total0, 0)[None, :]

// ----- scatter: the only update of a line is looked at by all of its places
func.func @main(%x: tensor<?x9xf32, ["n", "9"]>, %i: tensor<?x1xi64, ["n", "1"]>, %u: tensor<?x1xf32, ["n", "1"]>) -> tensor<?x9xf32, ["n", "9"]> {
  %0 = "burn.scatter_elements"(%x, %i, %u) {axis = 1 : i64, reduction = "add"} : (tensor<?x9xf32, ["n", "9"]>, tensor<?x1xi64, ["n", "1"]>, tensor<?x1xf32, ["n", "1"]>) -> tensor<?x9xf32, ["n", "9"]>
  "burn.return"(%0) : (tensor<?x9xf32, ["n", "9"]>) -> ()
}
// CHECK:      def kernel0(
// CHECK-NOT:  for
// CHECK:      tl.where(here0, {{.*}}, {{.*}})
// CHECK-NOT:  def kernel1(

// ----- sort: a row that fits a block is ranked, others are counted by digits and then moved
func.func @main(%x: tensor<3x500xf32>, %y: tensor<?xi64, ["n"]>) -> (tensor<3x500xf32>, tensor<3x500xi64>, tensor<?xi64, ["n"]>) {
  %0:2 = "burn.sort"(%x) {axis = 1 : i64, descending = true} : (tensor<3x500xf32>) -> (tensor<3x500xf32>, tensor<3x500xi64>)
  %1:2 = "burn.sort"(%y) {axis = 0 : i64, descending = false} : (tensor<?xi64, ["n"]>) -> (tensor<?xi64, ["n"]>, tensor<?xi64, ["n"]>)
  "burn.return"(%0#0, %0#1, %1#1) : (tensor<3x500xf32>, tensor<3x500xi64>, tensor<?xi64, ["n"]>) -> ()
}
// CHECK:      def kernel0(
// CHECK:        along = tl.arange(0, ROWS)
// CHECK:        {{v[0-9]+}} = {{v[0-9]+}}.to(tl.int32, bitcast=True)
// CHECK:        word = ({{v[0-9]+}}).to(tl.int64) * ROWS + along
// CHECK:        word = sorted_words(word, workspace{{[0-9]}} + tl.program_id(0).to(INT) * (2 * ROWS), along, 8, 9, ROWS)
// CHECK:        x = tl.program_id(0).to(INT) * ROWS + (word & (ROWS - 1)).to(tl.int32)
// CHECK:      def kernel2(
// CHECK:        counts = tl.histogram({{v[0-9]+}}, DIGITS)
// CHECK:        tl.store(b1 + (tl.program_id(0).to(INT) * DIGITS + tl.arange(0, DIGITS)), tl.cumsum(counts, 0) - counts)
// CHECK:      """A block of elements each; sum, sum along rows."""
// CHECK:      """A block of elements each; rank along rows."""
// CHECK:        word = sorted_words(word, {{.*}}, along, 3, 11, ROWS)

// ----- contraction: floats of 8 bits stay so, behind what lays their depth side by side
func.func @main(%x: tensor<256x256xf8E4M3FN>, %w: tensor<256x256xf8E4M3FN>) -> tensor<256x256xf32> {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>, dtype = "float32"} : (tensor<256x256xf8E4M3FN>, tensor<256x256xf8E4M3FN>) -> tensor<256x256xf32>
  "burn.return"(%0) : (tensor<256x256xf32>) -> ()
}
// CHECK:      def kernel0(
// CHECK:      tl.store(b1
// CHECK:      def kernel1(
// CHECK:        base0 = b0.to(tl.pointer_type(tl.float8e4nv), bitcast=True)
// CHECK-NEXT:   v0 = tl.load(base0 + {{.*}})
// CHECK:        total = tl.dot(left0, right0, total, max_num_imprecise_acc=DEPTH)

// ----- sums down columns of what is computed row by row: a block of rows each, the next ones on their way
func.func @main(%x: tensor<601x40xbf16>, %w: tensor<40xbf16>) -> (tensor<601x40xbf16>, tensor<1x40xbf16>) {
  %0 = "burn.cast"(%x) {dtype = "float32", saturate = true} : (tensor<601x40xbf16>) -> tensor<601x40xf32>
  %1 = "burn.reduce"(%0) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<601x40xf32>) -> tensor<601x1xf32>
  %2 = "burn.sub"(%0, %1) : (tensor<601x40xf32>, tensor<601x1xf32>) -> tensor<601x40xf32>
  %3 = "burn.reduce"(%2) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<601x40xf32>) -> tensor<1x40xf32>
  %4 = "burn.cast"(%3) {dtype = "bfloat16", saturate = true} : (tensor<1x40xf32>) -> tensor<1x40xbf16>
  %5 = "burn.cast"(%w) {dtype = "float32", saturate = true} : (tensor<40xbf16>) -> tensor<40xf32>
  %6 = "burn.mul"(%2, %5) : (tensor<601x40xf32>, tensor<40xf32>) -> tensor<601x40xf32>
  %7 = "burn.cast"(%6) {dtype = "bfloat16", saturate = true} : (tensor<601x40xf32>) -> tensor<601x40xbf16>
  "burn.return"(%7, %4) : (tensor<601x40xbf16>, tensor<1x40xbf16>) -> ()
}
// CHECK: sum along rows; sum down columns.
// CHECK: program = tl.program_id(0)
// CHECK: within0 = r0 < 
// CHECK: tl.load(b2 + r0, mask=within0, other=0.0)
// CHECK: fold0 = tl.full([ROWS, COLUMNS], 0.0, tl.float32)
// CHECK: for step in tl.range(0, {{.*}}, ROWS, num_stages=3):
// CHECK: inside0 = x < 
// CHECK: tl.load(b0 
// CHECK: sum0 = tl.sum(
// CHECK: tl.store(b1 
// CHECK: fold0 = add(fold0, tl.where(inside0, {{.*}}, 0.0)
// CHECK: tl.store(b3 + (program * {{.*}} + r0), tl.sum(fold0, 0)[None, :], mask=within0)
// CHECK: def kernel1(
// CHECK: sum0 = tl.sum(
// CHECK: sum0.to(tl.bfloat16)

// ----- contraction: floats of 8 bits may be summed on tensor cores alone
func.func @main(%x: tensor<256x256xf8E4M3FN>, %w: tensor<256x256xf8E4M3FN>) -> tensor<256x256xf32> {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>, dtype = "float32", sums = "fast"} : (tensor<256x256xf8E4M3FN>, tensor<256x256xf8E4M3FN>) -> tensor<256x256xf32>
  "burn.return"(%0) : (tensor<256x256xf32>) -> ()
}
// CHECK: total = tl.dot(left0, right0, total){{$}}

// ----- foreach: a program finds the tensor of its loop
func.func @main(%x: tensor<8x64xbf16>, %p: tensor<64x128xf32>, %q: tensor<128x32xf32>) -> tensor<8x32xbf16> {
  %0 = "burn.cast"(%p) {dtype = "bfloat16"} : (tensor<64x128xf32>) -> tensor<64x128xbf16>
  %1 = "burn.dot_general"(%x, %0) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<8x64xbf16>, tensor<64x128xbf16>) -> tensor<8x128xbf16>
  %2 = "burn.cast"(%q) {dtype = "bfloat16"} : (tensor<128x32xf32>) -> tensor<128x32xbf16>
  %3 = "burn.dot_general"(%1, %2) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<8x128xbf16>, tensor<128x32xbf16>) -> tensor<8x32xbf16>
  "burn.return"(%3) : (tensor<8x32xbf16>) -> ()
}
// CHECK:      def kernel0(p0, p1, p2, p3, INT: tl.constexpr, ROWS: tl.constexpr):
// CHECK:          program = tl.program_id(0)
// CHECK-NEXT:     if program < 4:
// CHECK-NEXT:         first = 0
// CHECK-NEXT:         b0 = p0
// CHECK-NEXT:         b1 = p2
// CHECK-NEXT:         _0 = 4096
// CHECK-NEXT:     else:
// CHECK-NEXT:         first = 4
// CHECK-NEXT:         b0 = p1
// CHECK-NEXT:         b1 = p3
// CHECK-NEXT:         _0 = 8192
// CHECK-NEXT:     x = (program - first).to(INT) * ROWS + tl.arange(0, ROWS)
