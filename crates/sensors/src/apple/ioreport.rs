//! Binds `IOReport`, the system library of macOS behind `powermetrics`.
//!
//! This is the only module with unsafe code on macOS. The library has no public header: the functions are declared as
//! in macmon, zeus-apple-silicon and all-smi. The library is loaded at run time, so a missing function is an error and
//! not a crash. Core Foundation objects are held by `objc2-core-foundation` (which sysinfo also uses): each is released
//! once, when it is dropped, and its type is checked before it is used as an array or a dictionary.
#![expect(unsafe_code, reason = "a system library that gives counters and has no Rust binding")]

use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};

use libloading::Library;
use objc2_core_foundation::{
    CFArray, CFData, CFDictionary, CFMutableArray, CFMutableDictionary, CFRetained, CFString, CFType,
};

use super::samples::{Entry, GROUP, ReadSample, Sample};

/// The path in the system's shared cache. There is no such file on disk.
const LIBRARY: &str = "/usr/lib/libIOReport.dylib";
/// The key of the array in a description of channels and in a sample.
const CHANNELS: &str = "IOReportChannels";
/// The key of a channel's `IOReportElement` bytes (xnu, `IOReportTypes.h`), and the offset of its `timestamp`: after
/// the ids of provider and channel and the channel's type, 8 bytes each.
const RAW_ELEMENTS: &str = "RawElements";
const TIMESTAMP_AT: usize = 24;

type CopyChannelsInGroup = unsafe extern "C" fn(*const CFString, *const CFString, u64, u64, u64) -> *mut CFDictionary;
type CreateSubscription = unsafe extern "C" fn(
    *const c_void,
    *const CFMutableDictionary,
    *mut *mut CFMutableDictionary,
    u64,
    *const CFType,
) -> *mut CFType;
type CreateSamples =
    unsafe extern "C" fn(*const CFType, *const CFMutableDictionary, *const CFType) -> *mut CFDictionary;
type GetText = unsafe extern "C" fn(*const CFDictionary) -> *mut CFString;
type GetInteger = unsafe extern "C" fn(*const CFDictionary, i32) -> i64;

/// The functions of the library, with the library that keeps them loaded.
struct Functions {
    copy_channels_in_group: CopyChannelsInGroup,
    create_subscription: CreateSubscription,
    create_samples: CreateSamples,
    group: GetText,
    subgroup: GetText,
    name: GetText,
    unit: GetText,
    integer: GetInteger,
    _library: Library,
}

impl Functions {
    fn load() -> io::Result<Self> {
        // SAFETY: this is a system library whose initialisers have no requirements.
        let library = unsafe { Library::new(LIBRARY) }.map_err(io::Error::other)?;
        // SAFETY: the types are those that the three programs named above use for these functions. Pointers follow the
        // rules of Core Foundation. The library is kept with the functions.
        unsafe {
            Ok(Self {
                copy_channels_in_group: symbol(&library, c"IOReportCopyChannelsInGroup")?,
                create_subscription: symbol(&library, c"IOReportCreateSubscription")?,
                create_samples: symbol(&library, c"IOReportCreateSamples")?,
                group: symbol(&library, c"IOReportChannelGetGroup")?,
                subgroup: symbol(&library, c"IOReportChannelGetSubGroup")?,
                name: symbol(&library, c"IOReportChannelGetChannelName")?,
                unit: symbol(&library, c"IOReportChannelGetUnitLabel")?,
                integer: symbol(&library, c"IOReportSimpleGetIntegerValue")?,
                _library: library,
            })
        }
    }

    /// A text of a channel, or an empty one if it has none. Invalid Unicode is replaced.
    fn text(channel: &CFDictionary, get: GetText) -> String {
        // SAFETY: the dictionary is from a description or sample of IOReport and lives through the call.
        let text = unsafe { get(channel) };
        // SAFETY: the pointer is null or a string that the channel owns (Core Foundation's rule for functions named
        // `Get`). It is retained first, and released when it is dropped.
        NonNull::new(text)
            .map(|text| unsafe { CFRetained::retain(text) })
            .map(|text| text.to_string())
            .unwrap_or_default()
    }
}

/// # Safety
/// `T` must be the type of the function of this name.
unsafe fn symbol<T: Copy>(library: &Library, name: &std::ffi::CStr) -> io::Result<T> {
    // SAFETY: the caller guarantees the type.
    unsafe { library.get::<T>(name.to_bytes_with_nul()) }.map(|symbol| *symbol).map_err(io::Error::other)
}

/// Opens a source of the channels with a wanted name.
pub(super) fn open(wanted: &dyn Fn(&str) -> bool) -> io::Result<Box<dyn ReadSample>> {
    Ok(Box::new(IoReport::open(wanted)?))
}

/// A subscription to channels of the energy model.
struct IoReport {
    // Fields are dropped in this order, the library last.
    subscription: CFRetained<CFType>,
    channels: CFRetained<CFMutableDictionary>,
    ticks: Ticks,
    functions: Functions,
}

// SAFETY: Core Foundation objects may be used and released on any thread, by one thread at a time. This is the only
// owner of these two, and all methods that use them take `&mut self`.
unsafe impl Send for IoReport {}

impl IoReport {
    /// Subscribes to the channels with a wanted name.
    fn open(wanted: &dyn Fn(&str) -> bool) -> io::Result<Self> {
        let functions = Functions::load()?;
        let group = CFString::from_static_str(GROUP);
        // SAFETY: the group is a live string, and no subgroup means all of them.
        let all = unsafe { (functions.copy_channels_in_group)(&raw const *group, ptr::null(), 0, 0, 0) };
        // SAFETY: the pointer is null or a dictionary that we own (Core Foundation's rule for functions named `Copy`).
        let all = NonNull::new(all).map(|all| unsafe { CFRetained::from_raw(all) });
        let all = all.ok_or_else(|| not_found(format!("there is no group `{GROUP}`")))?;
        let kept = CFMutableArray::<CFType>::empty();
        for channel in channels_of(&all)? {
            if wanted(&Functions::text(&channel, functions.name)) {
                kept.append(&channel);
            }
        }
        if kept.is_empty() {
            return Err(not_found(format!("the group `{GROUP}` has no known channel")));
        }
        // SAFETY: this copies a live dictionary. The capacity 0 does not limit its size.
        let channels = unsafe { CFMutableDictionary::new_copy(None, 0, Some(&all)) };
        let channels = channels.ok_or_else(|| io::Error::other("cannot copy the description of the channels"))?;
        // SAFETY: key and value are live objects. The dictionary, a copy of one from IOReport, retains them. IOReport
        // looks up the array by this key.
        unsafe {
            let key = CFString::from_static_str(CHANNELS);
            CFMutableDictionary::set_value(Some(&channels), (&raw const *key).cast(), (&raw const *kept).cast());
        }
        let mut subscribed = ptr::null_mut();
        // SAFETY: the channels are a live dictionary in IOReport's format, and the pointer is to a writable location.
        // The dictionary written there is neither used nor released, because its ownership is not documented: this
        // leaks one dictionary.
        let subscription = unsafe {
            (functions.create_subscription)(ptr::null(), &raw const *channels, &raw mut subscribed, 0, ptr::null())
        };
        // SAFETY: the pointer is null or an object that we own (Core Foundation's rule for functions named `Create`).
        let subscription = NonNull::new(subscription).map(|object| unsafe { CFRetained::from_raw(object) });
        let subscription = subscription.ok_or_else(|| io::Error::other("IOReport denied the subscription"))?;
        Ok(Self { subscription, channels, ticks: Ticks::read()?, functions })
    }

    fn entry(&self, channel: &CFDictionary) -> Entry {
        Entry {
            group: Functions::text(channel, self.functions.group),
            subgroup: Functions::text(channel, self.functions.subgroup),
            name: Functions::text(channel, self.functions.name),
            unit: Functions::text(channel, self.functions.unit),
            // SAFETY: the dictionary is from a sample of IOReport and lives through the call. For a channel that is not
            // an integer it returns the minimum, which is rejected as an energy.
            value: unsafe { (self.functions.integer)(channel, 0) },
            published_ns: value_of(channel, RAW_ELEMENTS)
                .and_then(|raw| raw.downcast::<CFData>().ok())
                .and_then(|raw| timestamp(&raw.to_vec()))
                .map(|ticks| self.ticks.nanos(ticks)),
        }
    }
}

impl ReadSample for IoReport {
    fn read(&mut self) -> io::Result<Sample> {
        // SAFETY: the subscription and its channels are live and belong together.
        let sample = unsafe {
            (self.functions.create_samples)(&raw const *self.subscription, &raw const *self.channels, ptr::null())
        };
        // SAFETY: it has no arguments and reads a register.
        let now = unsafe { mach_absolute_time() };
        // SAFETY: the pointer is null or a dictionary that we own (Core Foundation's rule for functions named
        // `Create`).
        let sample = NonNull::new(sample).map(|sample| unsafe { CFRetained::from_raw(sample) });
        let sample = sample.ok_or_else(|| io::Error::other("IOReport returned no sample"))?;
        let channels = channels_of(&sample)?.iter().map(|channel| self.entry(channel)).collect();
        Ok(Sample { now_ns: self.ticks.nanos(now), channels })
    }
}

/// The channels of a description or a sample.
fn channels_of(dictionary: &CFDictionary) -> io::Result<Vec<CFRetained<CFDictionary>>> {
    let array = value_of(dictionary, CHANNELS).and_then(|value| value.downcast::<CFArray>().ok());
    let array = array.ok_or_else(|| io::Error::other(format!("IOReport's result has no `{CHANNELS}`")))?;
    // SAFETY: the elements of IOReport's arrays are Core Foundation objects. Their type is checked below.
    let array = unsafe { CFRetained::cast_unchecked::<CFArray<CFType>>(array) };
    Ok(array.iter().filter_map(|channel| channel.downcast::<CFDictionary>().ok()).collect())
}

fn value_of(dictionary: &CFDictionary, key: &'static str) -> Option<CFRetained<CFType>> {
    // SAFETY: IOReport's dictionaries have strings as keys and Core Foundation objects as values.
    let dictionary: &CFDictionary<CFString, CFType> = unsafe { dictionary.cast_unchecked() };
    dictionary.get(&CFString::from_static_str(key))
}

/// The timestamp in the first element of a channel. Zero means that it was never written.
fn timestamp(raw: &[u8]) -> Option<u64> {
    let bytes = raw.get(TIMESTAMP_AT..TIMESTAMP_AT + size_of::<u64>())?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?)).filter(|&ticks| ticks > 0)
}

fn not_found(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, message)
}

/// The ticks of `mach_absolute_time`: 125/3 ns each on Apple Silicon.
#[repr(C)]
struct Ticks {
    numerator: u32,
    denominator: u32,
}

impl Ticks {
    fn read() -> io::Result<Self> {
        let mut ticks = Self { numerator: 0, denominator: 0 };
        // SAFETY: the pointer is to a writable value with the layout of `mach_timebase_info_data_t`, two `u32`.
        let status = unsafe { mach_timebase_info(&raw mut ticks) };
        if status != 0 || ticks.denominator == 0 {
            return Err(io::Error::other("the system does not report the length of its ticks"));
        }
        Ok(ticks)
    }

    fn nanos(&self, ticks: u64) -> u64 {
        let nanos = u128::from(ticks) * u128::from(self.numerator) / u128::from(self.denominator);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

// From the system library, which is linked into every program.
unsafe extern "C" {
    fn mach_absolute_time() -> u64;
    fn mach_timebase_info(ticks: *mut Ticks) -> i32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timestamp_is_the_fourth_word_of_an_element() {
        let element: Vec<u8> = (0..8_u64).flat_map(|word| (word * 1000).to_le_bytes()).collect();
        assert_eq!(timestamp(&element), Some(3000));
        assert_eq!(timestamp(&element[..31]), None);
        assert_eq!(timestamp(&[0; 64]), None);
    }

    #[test]
    fn ticks_of_a_24_mhz_clock_become_nanoseconds() {
        let ticks = Ticks { numerator: 125, denominator: 3 };
        assert_eq!((ticks.nanos(24_000_000), ticks.nanos(u64::MAX)), (1_000_000_000, u64::MAX));
    }

    #[test]
    fn the_energy_model_can_be_read_twice() {
        // Not every Mac has it: virtual machines have not.
        let Ok(mut source) = IoReport::open(&|_| true) else { return };
        let (first, second) = (source.read().unwrap(), source.read().unwrap());
        assert!(first.now_ns < second.now_ns && first.channels.len() == second.channels.len());
    }
}
