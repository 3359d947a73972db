"""Reads ONNX files, whoever made them, and knows what onnxruntime does with their operators."""
