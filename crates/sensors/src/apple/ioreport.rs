//! The binding to `IOReport`, the system library of macOS behind `powermetrics`.
//!
//! In goes a choice of channels by name; out come samples as plain data. The one place with unsafe code on macOS. The
//! library has no public header: the functions are declared as macmon, zeus-apple-silicon and all-smi declare them, and
//! a missing one is an error, not a crash, because it is loaded at run time. Objects of Core Foundation are held by
//! `objc2-core-foundation` (which sysinfo brings along anyway): each is released once when it is dropped, and none is
//! taken for an array or a dictionary before its type was asked.
#![expect(unsafe_code, reason = "a system library without a Rust binding that gives counters")]

use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};

use libloading::Library;
use objc2_core_foundation::{
    CFArray, CFData, CFDictionary, CFMutableArray, CFMutableDictionary, CFRetained, CFString, CFType,
};

use super::samples::{Entry, GROUP, ReadSample, Sample};

/// In the shared cache of the system; there is no such file on disk.
const LIBRARY: &str = "/usr/lib/libIOReport.dylib";
/// The array in a description of channels and in a sample.
const CHANNELS: &str = "IOReportChannels";
/// The bytes of a channel's `IOReportElement` (xnu, `IOReportTypes.h`), and where its `timestamp` begins: after the ids
/// of provider and channel and the channel's type, 8 bytes each.
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

/// The functions of the library, which stays loaded as long as they are there.
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
        // SAFETY: a library of the system, whose initialisers every program that shows energy runs.
        let library = unsafe { Library::new(LIBRARY) }.map_err(io::Error::other)?;
        // SAFETY: the types are those that the three programs named above call these functions by; pointers come and go
        // as Core Foundation has them. The library is kept beside the functions.
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

    /// A text of a channel; empty where it has none. What is no Unicode is replaced.
    fn text(channel: &CFDictionary, get: GetText) -> String {
        // SAFETY: the dictionary is one of a description or sample of IOReport and lives through the call.
        let text = unsafe { get(channel) };
        // SAFETY: null or a string that belongs to the channel (Core Foundation's rule for functions named `Get`). It is
        // retained before anything else is done, and released when it is dropped.
        NonNull::new(text)
            .map(|text| unsafe { CFRetained::retain(text) })
            .map(|text| text.to_string())
            .unwrap_or_default()
    }
}

/// # Safety
/// `T` must be the type of the function of this name.
unsafe fn symbol<T: Copy>(library: &Library, name: &std::ffi::CStr) -> io::Result<T> {
    // SAFETY: what the caller says.
    unsafe { library.get::<T>(name.to_bytes_with_nul()) }.map(|symbol| *symbol).map_err(io::Error::other)
}

/// Opens a source of the channels whose names are wanted.
pub(super) fn open(wanted: &dyn Fn(&str) -> bool) -> io::Result<Box<dyn ReadSample>> {
    Ok(Box::new(IoReport::open(wanted)?))
}

/// A subscription to channels of the energy model.
struct IoReport {
    // Dropped in this order: the library last.
    subscription: CFRetained<CFType>,
    channels: CFRetained<CFMutableDictionary>,
    ticks: Ticks,
    functions: Functions,
}

// SAFETY: Core Foundation's objects may be used and released on any thread, by one at a time; this is the only owner of
// these two, and all its methods that use them take `&mut self`.
unsafe impl Send for IoReport {}

impl IoReport {
    /// Subscribes to the channels whose names are wanted.
    fn open(wanted: &dyn Fn(&str) -> bool) -> io::Result<Self> {
        let functions = Functions::load()?;
        let group = CFString::from_static_str(GROUP);
        // SAFETY: the group is a live string, and no subgroup means all of them.
        let all = unsafe { (functions.copy_channels_in_group)(&raw const *group, ptr::null(), 0, 0, 0) };
        // SAFETY: null or a dictionary that is ours (Core Foundation's rule for functions named `Copy`).
        let all = NonNull::new(all).map(|all| unsafe { CFRetained::from_raw(all) });
        let all = all.ok_or_else(|| not_found(format!("there is no group `{GROUP}`")))?;
        let kept = CFMutableArray::<CFType>::empty();
        for channel in channels_of(&all)? {
            if wanted(&Functions::text(&channel, functions.name)) {
                kept.append(&channel);
            }
        }
        if kept.is_empty() {
            return Err(not_found(format!("the group `{GROUP}` has no channel that is known")));
        }
        // SAFETY: a copy of a live dictionary, whose size is not bounded by the capacity 0.
        let channels = unsafe { CFMutableDictionary::new_copy(None, 0, Some(&all)) };
        let channels = channels.ok_or_else(|| io::Error::other("cannot copy the description of the channels"))?;
        // SAFETY: key and value are live objects, which the dictionary, a copy of one of IOReport's, retains. The key is
        // the one that the array is looked for by.
        unsafe {
            let key = CFString::from_static_str(CHANNELS);
            CFMutableDictionary::set_value(Some(&channels), (&raw const *key).cast(), (&raw const *kept).cast());
        }
        let mut subscribed = ptr::null_mut();
        // SAFETY: the channels are a live dictionary of the form that IOReport gave, and the pointer is to a writable
        // place. What is written there is not used, and not released, since nobody says whose it is: one dictionary as
        // long as this program runs.
        let subscription = unsafe {
            (functions.create_subscription)(ptr::null(), &raw const *channels, &raw mut subscribed, 0, ptr::null())
        };
        // SAFETY: null or an object of Core Foundation that is ours (its rule for functions named `Create`).
        let subscription = NonNull::new(subscription).map(|object| unsafe { CFRetained::from_raw(object) });
        let subscription = subscription.ok_or_else(|| io::Error::other("IOReport refuses the subscription"))?;
        Ok(Self { subscription, channels, ticks: Ticks::read()?, functions })
    }

    fn entry(&self, channel: &CFDictionary) -> Entry {
        Entry {
            group: Functions::text(channel, self.functions.group),
            subgroup: Functions::text(channel, self.functions.subgroup),
            name: Functions::text(channel, self.functions.name),
            unit: Functions::text(channel, self.functions.unit),
            // SAFETY: the dictionary is one of a sample of IOReport and lives through the call. For a channel that is
            // no integer the answer is the least one, which is refused as an energy.
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
        // SAFETY: it takes nothing and reads a register.
        let now = unsafe { mach_absolute_time() };
        // SAFETY: null or a dictionary that is ours (Core Foundation's rule for functions named `Create`).
        let sample = NonNull::new(sample).map(|sample| unsafe { CFRetained::from_raw(sample) });
        let sample = sample.ok_or_else(|| io::Error::other("IOReport gives no sample"))?;
        let channels = channels_of(&sample)?.iter().map(|channel| self.entry(channel)).collect();
        Ok(Sample { now_ns: self.ticks.nanos(now), channels })
    }
}

/// The channels of a description or a sample.
fn channels_of(dictionary: &CFDictionary) -> io::Result<Vec<CFRetained<CFDictionary>>> {
    let array = value_of(dictionary, CHANNELS).and_then(|value| value.downcast::<CFArray>().ok());
    let array = array.ok_or_else(|| io::Error::other(format!("IOReport's answer has no `{CHANNELS}`")))?;
    // SAFETY: the elements of IOReport's arrays are objects of Core Foundation; which, is asked below.
    let array = unsafe { CFRetained::cast_unchecked::<CFArray<CFType>>(array) };
    Ok(array.iter().filter_map(|channel| channel.downcast::<CFDictionary>().ok()).collect())
}

fn value_of(dictionary: &CFDictionary, key: &'static str) -> Option<CFRetained<CFType>> {
    // SAFETY: IOReport's dictionaries have strings for keys and objects of Core Foundation for values.
    let dictionary: &CFDictionary<CFString, CFType> = unsafe { dictionary.cast_unchecked() };
    dictionary.get(&CFString::from_static_str(key))
}

/// The time in the first element of a channel; zero is what one has that was never written.
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
        // SAFETY: the pointer is to a writable value of the form of `mach_timebase_info_data_t`, two `u32`.
        let status = unsafe { mach_timebase_info(&raw mut ticks) };
        if status != 0 || ticks.denominator == 0 {
            return Err(io::Error::other("the system does not tell how long its ticks are"));
        }
        Ok(ticks)
    }

    fn nanos(&self, ticks: u64) -> u64 {
        let nanos = u128::from(ticks) * u128::from(self.numerator) / u128::from(self.denominator);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

// Of the system's own library, which every program has.
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
    fn what_is_there_can_be_read_twice() {
        // Not every Mac has it: those that build programs are virtual.
        let Ok(mut source) = IoReport::open(&|_| true) else { return };
        let (first, second) = (source.read().unwrap(), source.read().unwrap());
        assert!(first.now_ns < second.now_ns && first.channels.len() == second.channels.len());
    }
}
