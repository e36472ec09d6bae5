//! The idle power and TDP of a processor, by its brand string.
//!
//! TDPs and thread counts are the published values of the named reference model: the base power if Intel gives two
//! values, and the upper end if AMD gives a range. They agree with codecarbon 3.3 for the models that it lists. Apple
//! and AWS publish none, so their values are marked as estimates. No vendor publishes idle power: it is assumed as a
//! share of the TDP by class, accurate to a factor of two.

use std::fmt;

use ergometer_telemetry::SystemInfo;
use ergometer_units::Watts;

/// The class of a processor, which determines its idle power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// A large uncore or I/O die that never sleeps: idle power is 25 % of the TDP.
    Server,
    /// Idle power is 10 % of the TDP.
    Desktop,
    /// Idle power is 5 % of the TDP.
    Mobile,
}

impl Class {
    const fn idle_share(self) -> f64 {
        match self {
            Self::Server => 0.25,
            Self::Desktop => 0.10,
            Self::Mobile => 0.05,
        }
    }
}

/// A processor family, identified by words of the brand string.
#[derive(Debug)]
struct Family {
    /// Words that must occur in this order. `?` is any character, a leading `*` any digits (`*h` is a model number that
    /// ends in H, but not `with`), and a trailing `*` any text.
    pattern: &'static str,
    /// The model with these values.
    reference: &'static str,
    /// The TDP of one socket.
    tdp_w: f64,
    /// The threads of one socket.
    threads: u32,
    class: Class,
}

const fn family(pattern: &'static str, reference: &'static str, tdp_w: f64, threads: u32, class: Class) -> Family {
    Family { pattern, reference, tdp_w, threads, class }
}

use Class::{Desktop, Mobile, Server};

/// All families. The first match is used, so specific patterns come before general ones.
#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    family("xeon 69??p", "Xeon 6980P", 500.0, 256, Server),
    family("xeon 67??p", "Xeon 6787P", 350.0, 172, Server),
    family("xeon 67??e", "Xeon 6780E", 330.0, 144, Server),
    family("xeon platinum 85*", "Xeon Platinum 8592+", 350.0, 128, Server),
    family("xeon platinum 84*", "Xeon Platinum 8480+", 350.0, 112, Server),
    family("xeon platinum 83*", "Xeon Platinum 8380", 270.0, 80, Server),
    family("xeon platinum 82*", "Xeon Platinum 8280", 205.0, 56, Server),
    family("xeon platinum", "Xeon Platinum 8180", 205.0, 56, Server),
    family("xeon gold 65*", "Xeon Gold 6530", 270.0, 64, Server),
    family("xeon gold 64*", "Xeon Gold 6430", 270.0, 64, Server),
    family("xeon gold 63*", "Xeon Gold 6338", 205.0, 64, Server),
    family("xeon gold 5*", "Xeon Gold 5218", 125.0, 32, Server),
    family("xeon gold", "Xeon Gold 6248", 150.0, 40, Server),
    family("xeon silver", "Xeon Silver 4314", 135.0, 32, Server),
    family("xeon e5", "Xeon E5-2680 v4", 120.0, 28, Server),
    family("xeon e", "Xeon E-2288G", 95.0, 16, Desktop),
    family("xeon w?", "Xeon w9-3495X", 350.0, 112, Server),
    family("xeon w", "Xeon W-2295", 165.0, 36, Server),
    family("xeon", "Xeon Platinum 8280", 205.0, 56, Server),
    family("epyc 9??5*", "EPYC 9655", 400.0, 192, Server),
    family("epyc 97?4*", "EPYC 9754", 360.0, 256, Server),
    family("epyc 9*", "EPYC 9654", 360.0, 192, Server),
    family("epyc 8??4*", "EPYC 8534P", 200.0, 128, Server),
    family("epyc 4??4*", "EPYC 4564P", 170.0, 32, Desktop),
    family("epyc 7??3*", "EPYC 7763", 280.0, 128, Server),
    family("epyc 7??2*", "EPYC 7742", 225.0, 128, Server),
    family("epyc 7??1*", "EPYC 7601", 180.0, 64, Server),
    family("epyc", "EPYC 7763", 280.0, 128, Server),
    family("core ultra 9 *k", "Core Ultra 9 285K", 125.0, 24, Desktop),
    family("core ultra ? *k", "Core Ultra 7 265K", 125.0, 20, Desktop),
    family("core ultra 9 *h", "Core Ultra 9 185H", 45.0, 22, Mobile),
    family("core ultra 7 *h", "Core Ultra 7 155H", 28.0, 22, Mobile),
    family("core ultra 5 *h", "Core Ultra 5 125H", 28.0, 18, Mobile),
    family("core ultra ? *v", "Core Ultra 7 258V", 17.0, 8, Mobile),
    family("core ultra ? *u", "Core Ultra 7 155U", 15.0, 14, Mobile),
    family("core i9 *k*", "Core i9-13900K", 125.0, 32, Desktop),
    family("core i9 *hx", "Core i9-13980HX", 55.0, 32, Mobile),
    family("core i9 *h*", "Core i9-13900H", 45.0, 20, Mobile),
    family("core i9", "Core i9-13900", 65.0, 32, Desktop),
    family("core i7 *k*", "Core i7-13700K", 125.0, 24, Desktop),
    family("core i7 *h*", "Core i7-13700H", 45.0, 20, Mobile),
    family("core i7 *p", "Core i7-1260P", 28.0, 16, Mobile),
    family("core i7 *u", "Core i7-1255U", 15.0, 12, Mobile),
    family("core i7 *g?", "Core i7-1165G7", 28.0, 8, Mobile),
    family("core i7", "Core i7-13700", 65.0, 24, Desktop),
    family("core i5 *k*", "Core i5-13600K", 125.0, 20, Desktop),
    family("core i5 *h*", "Core i5-13500H", 45.0, 16, Mobile),
    family("core i5 *p", "Core i5-1240P", 28.0, 16, Mobile),
    family("core i5 *u", "Core i5-1235U", 15.0, 12, Mobile),
    family("core i5 *g?", "Core i5-1135G7", 28.0, 8, Mobile),
    family("core i5", "Core i5-13500", 65.0, 20, Desktop),
    family("core i3", "Core i3-13100", 60.0, 8, Desktop),
    family("threadripper pro 7*", "Threadripper PRO 7995WX", 350.0, 192, Server),
    family("threadripper pro", "Threadripper PRO 5995WX", 280.0, 128, Server),
    family("threadripper 7*", "Threadripper 7980X", 350.0, 128, Server),
    family("threadripper", "Threadripper 3970X", 280.0, 64, Server),
    family("ryzen ai max*", "Ryzen AI Max+ 395", 55.0, 32, Mobile),
    family("ryzen ai", "Ryzen AI 9 HX 370", 28.0, 24, Mobile),
    family("ryzen ? *hx*", "Ryzen 9 7945HX", 55.0, 32, Mobile),
    family("ryzen ? *hs", "Ryzen 9 7940HS", 54.0, 16, Mobile),
    family("ryzen ? *h", "Ryzen 7 7735H", 45.0, 16, Mobile),
    family("ryzen 7 *u", "Ryzen 7 7840U", 28.0, 16, Mobile),
    family("ryzen ? *u", "Ryzen 5 7530U", 15.0, 12, Mobile),
    family("ryzen 9 *x3d", "Ryzen 9 7950X3D", 120.0, 32, Desktop),
    family("ryzen 9 5*", "Ryzen 9 5950X", 105.0, 32, Desktop),
    family("ryzen 9 3*", "Ryzen 9 3950X", 105.0, 32, Desktop),
    family("ryzen 9", "Ryzen 9 7950X", 170.0, 32, Desktop),
    family("ryzen 7 *x3d", "Ryzen 7 7800X3D", 120.0, 16, Desktop),
    family("ryzen 7 *x", "Ryzen 7 7700X", 105.0, 16, Desktop),
    family("ryzen 7", "Ryzen 7 7700", 65.0, 16, Desktop),
    family("ryzen 5 7???x", "Ryzen 5 7600X", 105.0, 12, Desktop),
    family("ryzen 5", "Ryzen 5 5600X", 65.0, 12, Desktop),
    family("ryzen 3", "Ryzen 3 3100", 65.0, 8, Desktop),
    family("apple m? ultra", "Apple M1 Ultra (estimate)", 60.0, 20, Mobile),
    family("apple m? max", "Apple M1 Max (estimate)", 34.0, 10, Mobile),
    family("apple m? pro", "Apple M1 Pro (estimate)", 34.0, 10, Mobile),
    family("apple m?", "Apple M1 (estimate)", 20.0, 8, Mobile),
    family("ampereone*", "AmpereOne A192", 350.0, 192, Server),
    family("ampere altra max", "Ampere Altra Max M128-30", 250.0, 128, Server),
    family("ampere altra", "Ampere Altra Q80-30", 210.0, 80, Server),
    // On Arm, Linux reports the core design and not the maker of the chip.
    family("neoverse n1", "AWS Graviton2 (estimate)", 110.0, 64, Server),
    family("neoverse v1", "AWS Graviton3 (estimate)", 100.0, 64, Server),
    family("neoverse v2", "AWS Graviton4 (estimate)", 160.0, 96, Server),
    family("grace", "NVIDIA Grace, memory included", 250.0, 72, Server),
];

/// The values for an unknown processor.
const UNKNOWN: Family = family("", "an unknown desktop processor, by default", 65.0, 16, Desktop);

/// The power model of this machine's processors. `Display` shows its formula and its source.
#[derive(Debug, Clone)]
pub struct PowerModel {
    brand: String,
    visible_threads: Option<u32>,
    family: &'static Family,
}

impl PowerModel {
    /// The model for a machine. The values of one socket are scaled by the number of visible threads, because a virtual
    /// machine has only a part of a socket and a server may have several. (With simultaneous multithreading switched
    /// off, the result is up to 50 % too low.)
    #[must_use]
    pub fn for_system(system: &SystemInfo) -> Self {
        let brand = system.cpu_brand.clone().unwrap_or_else(|| "unnamed CPU".to_owned());
        let words = words(&brand);
        let family = FAMILIES.iter().find(|family| matches_words(family.pattern, &words)).unwrap_or(&UNKNOWN);
        Self { brand, visible_threads: system.cpu_count.filter(|&count| count > 0), family }
    }

    /// The processor's name.
    #[must_use]
    pub fn brand(&self) -> &str {
        &self.brand
    }

    /// Idle power.
    #[must_use]
    pub fn idle(&self) -> Watts {
        self.tdp() * self.family.class.idle_share()
    }

    /// Power of the visible threads at full load.
    #[must_use]
    pub fn tdp(&self) -> Watts {
        let sockets = self.visible_threads.map_or(1.0, |count| f64::from(count) / f64::from(self.family.threads));
        Watts::new(self.family.tdp_w) * sockets
    }

    /// Power at this busy share of all threads, 0 to 1.
    #[must_use]
    pub fn power(&self, busy_share: f64) -> Watts {
        self.idle() + (self.tdp() - self.idle()) * busy_share.clamp(0.0, 1.0)
    }
}

impl fmt::Display for PowerModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (idle_w, tdp_w) = (self.idle().get(), self.tdp().get());
        let Family { reference, tdp_w: socket_w, threads, class, .. } = self.family;
        write!(f, "{idle_w:.1} W + {:.1} W x utilization, ", tdp_w - idle_w)?;
        write!(f, "based on {reference} (TDP {socket_w:.0} W for {threads} threads)")?;
        match self.visible_threads {
            Some(visible) if visible == *threads => {}
            Some(1) => write!(f, ", scaled to 1 thread")?,
            Some(visible) => write!(f, ", scaled to {visible} threads")?,
            None => write!(f, ", one socket")?,
        }
        write!(f, "; idle power is assumed to be {:.0} % of TDP", class.idle_share() * 100.0)
    }
}

/// The lower-case words of a brand string: `Intel(R) Core(TM) i7-1260P` gives `intel core i7 1260p`.
fn words(brand: &str) -> Vec<String> {
    let plain = brand.to_lowercase().replace("(r)", " ").replace("(tm)", " ");
    plain.split(|letter: char| letter.is_whitespace() || letter == '-').map(str::to_owned).collect()
}

fn matches_words(pattern: &str, words: &[String]) -> bool {
    let mut rest = words.iter();
    !pattern.is_empty() && pattern.split(' ').all(|wanted| rest.any(|word| matches_word(wanted, word)))
}

fn matches_word(pattern: &str, word: &str) -> bool {
    let word = match pattern.strip_prefix('*') {
        Some(_) => word.trim_start_matches(|letter: char| letter.is_ascii_digit()),
        None => word,
    };
    let wanted = pattern.trim_matches('*');
    let mut letters = word.chars();
    let begins = wanted.chars().all(|want| letters.next().is_some_and(|letter| want == '?' || letter == want));
    begins && (pattern.ends_with('*') || letters.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(brand: &str, threads: u32) -> PowerModel {
        let cpu_brand = Some(brand.to_owned());
        PowerModel::for_system(&SystemInfo { cpu_brand, cpu_count: Some(threads), ..SystemInfo::default() })
    }

    #[test]
    fn brand_strings_match_their_family() {
        for (brand, reference) in [
            ("Intel(R) Xeon(R) Platinum 8488C", "Xeon Platinum 8480+"),
            ("Intel(R) Xeon(R) Platinum 8175M CPU @ 2.50GHz", "Xeon Platinum 8180"),
            ("Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", "Xeon Gold 6338"),
            ("Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz", "Xeon E5-2680 v4"),
            ("Intel(R) Xeon(R) CPU @ 2.20GHz", "Xeon Platinum 8280"),
            ("Intel(R) Xeon(R) 6980P", "Xeon 6980P"),
            ("Intel(R) Xeon(R) w9-3495X", "Xeon w9-3495X"),
            ("AMD EPYC 7B13", "EPYC 7763"),
            ("AMD EPYC 7R32", "EPYC 7742"),
            ("AMD EPYC 9R14", "EPYC 9654"),
            ("AMD EPYC 9965 192-Core Processor", "EPYC 9655"),
            ("AMD EPYC", "EPYC 7763"),
            ("12th Gen Intel(R) Core(TM) i7-1260P", "Core i7-1260P"),
            ("11th Gen Intel(R) Core(TM) i5-1135G7 @ 2.40GHz", "Core i5-1135G7"),
            ("13th Gen Intel(R) Core(TM) i9-13900KF", "Core i9-13900K"),
            ("Intel(R) Core(TM) i7-8565U CPU @ 1.80GHz", "Core i7-1255U"),
            ("Intel(R) Core(TM) i7-10750H CPU @ 2.60GHz", "Core i7-13700H"),
            ("Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz", "Core i7-13700"),
            ("Intel(R) Core(TM) Ultra 7 155H", "Core Ultra 7 155H"),
            ("AMD Ryzen 9 7950X 16-Core Processor", "Ryzen 9 7950X"),
            ("AMD Ryzen 9 7950X3D 16-Core Processor", "Ryzen 9 7950X3D"),
            ("AMD Ryzen 7 PRO 6850U with Radeon Graphics", "Ryzen 7 7840U"),
            ("AMD Ryzen 7 7840HS w/ Radeon 780M Graphics", "Ryzen 9 7940HS"),
            ("AMD Ryzen AI 9 HX 370 w/ Radeon 890M", "Ryzen AI 9 HX 370"),
            ("AMD Ryzen Threadripper PRO 5975WX 32-Cores", "Threadripper PRO 5995WX"),
            ("AMD Ryzen Threadripper 3990X 64-Core Processor", "Threadripper 3970X"),
            ("Apple M3 Max", "Apple M1 Max (estimate)"),
            ("Apple M2", "Apple M1 (estimate)"),
            ("Neoverse-V1", "AWS Graviton3 (estimate)"),
            ("Ampere(R) Altra(R) Max Processor", "Ampere Altra Max M128-30"),
            ("Fishtank 3000", "an unknown desktop processor, by default"),
            ("", "an unknown desktop processor, by default"),
        ] {
            assert_eq!(model(brand, 4).family.reference, reference, "{brand}");
        }
    }

    #[test]
    fn power_scales_with_the_visible_threads() {
        let share = model("AMD EPYC 7B13", 8);
        assert_eq!(share.tdp(), Watts::new(17.5));
        assert_eq!(share.power(0.0), share.idle());
        assert_eq!(share.power(1.0), share.tdp());
        assert!(
            share.to_string().ends_with(", scaled to 8 threads; idle power is assumed to be 25 % of TDP"),
            "{share}"
        );
        assert_eq!(model("AMD EPYC 7763 64-Core Processor", 256).tdp(), Watts::new(560.0), "two sockets");
        let whole = PowerModel::for_system(&SystemInfo::default());
        assert_eq!((whole.brand(), whole.tdp()), ("unnamed CPU", Watts::new(65.0)));
        assert!(whole.to_string().contains("based on an unknown desktop processor, by default (TDP 65 W"), "{whole}");
    }

    #[test]
    fn every_family_has_plausible_power_per_thread() {
        for family in FAMILIES {
            let per_thread_w = family.tdp_w / f64::from(family.threads);
            assert!((0.9..=9.0).contains(&per_thread_w), "{}: {per_thread_w} W a thread", family.reference);
        }
    }
}
