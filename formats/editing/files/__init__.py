"""Files of tensors that are no models: `.npy`, `.npz` and `.safetensors`."""
