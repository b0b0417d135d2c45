"""burn behind other projects' interfaces: PyTorch modules and its compiler's back end, ONNX's back end. Above the driver."""
