//! Reads one power field of one scope with `nvmlDeviceGetFieldValues`.
//!
//! This needs unsafe code because `field_values_for` of `nvml-wrapper` always reads scope 0, and the power of the
//! memory has scope 2. All three power fields are read this way.
#![expect(unsafe_code, reason = "nvml-wrapper 0.13 cannot name the scope of a field value")]

use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError as WrapperError, nvml_sym, nvml_try};
use nvml_wrapper_sys::bindings::field_id::{NVML_FI_DEV_POWER_AVERAGE, NVML_FI_DEV_POWER_INSTANT};
use nvml_wrapper_sys::bindings::{
    NVML_POWER_SCOPE_GPU, NVML_POWER_SCOPE_MEMORY, nvmlFieldValue_t, nvmlReturn_enum_NVML_ERROR_UNKNOWN, nvmlValue_t,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT,
};

use super::library::PowerField;

/// Reads one power field, in milliwatts.
pub(super) fn read_mw(device: &Device<'_>, field: PowerField) -> Result<u32, WrapperError> {
    let (field_id, scope_id) = match field {
        PowerField::Instant => (NVML_FI_DEV_POWER_INSTANT, NVML_POWER_SCOPE_GPU),
        PowerField::Average => (NVML_FI_DEV_POWER_AVERAGE, NVML_POWER_SCOPE_GPU),
        PowerField::MemoryAverage => (NVML_FI_DEV_POWER_AVERAGE, NVML_POWER_SCOPE_MEMORY),
    };
    let mut value = nvmlFieldValue_t {
        fieldId: field_id,
        scopeId: scope_id,
        timestamp: 0,
        latencyUsec: 0,
        valueType: nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT,
        // The driver sets this for each field. If it does not, the read failed; it is not zero watts.
        nvmlReturn: nvmlReturn_enum_NVML_ERROR_UNKNOWN,
        value: nvmlValue_t { ullVal: 0 },
    };
    let get_field_values = nvml_sym(device.nvml().lib().nvmlDeviceGetFieldValues.as_ref())?;
    // SAFETY: the symbol was loaded from NVML under this name and has the type in nvml.h. The handle belongs to
    // `device`, whose lifetime keeps the library loaded and initialised. The count is 1 and the pointer is to exactly
    // one writable value that outlives the call. NVML keeps no pointer to it.
    nvml_try(unsafe { get_field_values(device.handle(), 1, &raw mut value) })?;
    nvml_try(value.nvmlReturn)?;
    if value.valueType != nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT {
        return Err(WrapperError::UnexpectedVariant(value.valueType));
    }
    // SAFETY: every byte of the union was initialised above, and any bits are a valid `u32`. The type that was just
    // checked shows that this member was written.
    Ok(unsafe { value.value.uiVal })
}
