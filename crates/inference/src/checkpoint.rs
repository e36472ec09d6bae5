//! Reads tensors from safetensors files as 32-bit floats and checks their shapes.

use std::collections::HashMap;
use std::path::Path;

use half::{bf16, f16};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::error::ModelError;
use crate::files::File;
use crate::matrix::Matrix;

/// The number format of the weights in their files. In memory, weights are always 32-bit floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WeightType {
    /// 32-bit floats.
    F32,
    /// IEEE 754 16-bit floats.
    F16,
    /// bfloat16: 16-bit floats with the exponent range of 32-bit floats.
    Bf16,
    /// Several formats.
    Mixed,
}

impl WeightType {
    /// The name: `f32`, `f16`, `bf16` or `mixed`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Mixed => "mixed",
        }
    }
}

/// The tensors of a model by name, and a tally of those read so far.
pub(crate) struct Checkpoint<'a> {
    tensors: HashMap<String, (&'a Path, TensorView<'a>)>,
    first_path: &'a Path,
    parameters: u64,
    bytes: u64,
    weight_type: Option<WeightType>,
}

/// Totals of the tensors read from a checkpoint.
pub(crate) struct Tally {
    pub(crate) parameters: u64,
    pub(crate) bytes: u64,
    pub(crate) weight_type: WeightType,
}

impl<'a> Checkpoint<'a> {
    /// Opens the weight files. There is at least one.
    pub(crate) fn open(files: &'a [File]) -> Result<Self, ModelError> {
        let mut tensors = HashMap::new();
        for File { path, bytes } in files {
            let shard = SafeTensors::deserialize(bytes)
                .map_err(|cause| ModelError::Safetensors { path: path.clone(), cause: Box::new(cause) })?;
            tensors.extend(shard.tensors().into_iter().map(|(name, tensor)| (name, (path.as_path(), tensor))));
        }
        let first_path = files.first().map_or(Path::new(""), |file| file.path.as_path());
        Ok(Self { tensors, first_path, parameters: 0, bytes: 0, weight_type: None })
    }

    /// Reads a matrix of `rows` outputs and `columns` inputs.
    pub(crate) fn matrix(&mut self, name: &str, rows: usize, columns: usize) -> Result<Matrix, ModelError> {
        let weights = self.floats(name, &[rows, columns])?;
        let matrix = Matrix::pack(&weights, rows, columns);
        self.bytes += matrix.bytes() as u64;
        Ok(matrix)
    }

    /// Reads a vector.
    pub(crate) fn vector(&mut self, name: &str, length: usize) -> Result<Vec<f32>, ModelError> {
        let weights = self.floats(name, &[length])?;
        self.bytes += size_of_val(weights.as_slice()) as u64;
        Ok(weights)
    }

    /// Totals of the tensors read so far.
    pub(crate) fn tally(&self) -> Tally {
        let weight_type = self.weight_type.unwrap_or(WeightType::F32);
        Tally { parameters: self.parameters, bytes: self.bytes, weight_type }
    }

    fn floats(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        let Some((path, tensor)) = self.tensors.get(name) else {
            return Err(ModelError::MissingTensor { name: name.to_owned(), path: self.first_path.to_owned() });
        };
        if tensor.shape() != shape {
            return Err(ModelError::Shape {
                name: name.to_owned(),
                path: (*path).to_owned(),
                expected: shape.to_vec(),
                found: tensor.shape().to_vec(),
            });
        }
        let bytes = tensor.data();
        let halves = || bytes.as_chunks::<2>().0.iter();
        let (weight_type, floats) = match tensor.dtype() {
            Dtype::F32 => (WeightType::F32, bytes.as_chunks().0.iter().map(|&four| f32::from_le_bytes(four)).collect()),
            Dtype::F16 => (WeightType::F16, halves().map(|&two| f16::from_le_bytes(two).to_f32()).collect()),
            Dtype::BF16 => (WeightType::Bf16, halves().map(|&two| bf16::from_le_bytes(two).to_f32()).collect()),
            other => {
                let feature = format!("the type {other:?} of tensor {name}");
                return Err(ModelError::Unsupported { path: (*path).to_owned(), feature });
            }
        };
        self.weight_type = Some(match self.weight_type {
            Some(before) if before != weight_type => WeightType::Mixed,
            _ => weight_type,
        });
        let floats: Vec<f32> = floats;
        self.parameters += floats.len() as u64;
        Ok(floats)
    }
}
