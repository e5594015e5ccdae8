"""ONNX Runtime's modules by the names that they have there."""
