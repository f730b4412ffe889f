//! Which calls fail.

use thalweg_hal::{Error, Result};

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// What can fail. Calls are counted for each kind on its own, from 1, since the device was opened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $($(#[$doc])* $name,)* }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Kind] = &[$(Kind::$name),*];

            /// The name in options.
            pub const fn name(self) -> &'static str { match self { $(Kind::$name => $text,)* } }
        }
    };
}

kinds! {
    /// An allocation, or a run of a program that makes memory, is out of memory.
    Alloc = "alloc";
    /// A launch, packets or a run of a program is refused when it is submitted.
    Submit = "submit";
    /// A launch, packets or a run of a program is accepted and fails later; the error sticks to its stream.
    Later = "later";
    /// The device is lost at a launch, packets or a run of a program.
    Lost = "lost";
    /// A packet that copies takes 100 ms longer.
    Slow = "slow";
    /// An event comes 100 ms later than what it covers.
    Event = "event";
    /// A kernel does not compile, or a program is not made.
    Compile = "compile";
    /// Counters of memory are near their largest number.
    Statistics = "statistics";
    /// A callback fails after it ran.
    Callback = "callback";
}

impl Kind {
    fn parse(name: &str) -> Result<Kind> {
        let found = Kind::ALL.iter().find(|kind| kind.name() == name);
        found.copied().ok_or_else(|| {
            let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            Error::invalid_argument(format!(
                "there is no fault `{name}`; there are {}",
                names.join(", ")
            ))
        })
    }
}

/// Which calls fail, and how many there were.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// Kind and number of the call.
    list: Vec<(Kind, u64)>,
    chance: Option<Chance>,
    counts: [u64; Kind::ALL.len()],
}

/// Calls that a seed picks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chance {
    seed: u64,
    /// One of so many calls fails, on average.
    every: u64,
    kinds: Vec<Kind>,
}

impl Rules {
    /// Reads `KIND@N`, `seed=S`, `every=N` and `kinds=KIND+KIND`, with commas between them.
    pub(super) fn parse(text: &str) -> Result<Rules> {
        let number = |item: &str, digits: &str| {
            let number = digits.parse().ok().filter(|&number| number > 0);
            number.ok_or_else(|| {
                Error::invalid_argument(format!("layer.fault: `{item}` has no whole number from 1"))
            })
        };
        let mut rules = Rules::default();
        let (mut seed, mut every, mut kinds) = (None, 100, Kind::ALL.to_vec());
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            if let Some((kind, digits)) = item.split_once('@') {
                rules.list.push((Kind::parse(kind)?, number(item, digits)?));
                continue;
            }
            match item.split_once('=') {
                Some(("seed", digits)) => seed = Some(number(item, digits)?),
                Some(("every", digits)) => every = number(item, digits)?,
                Some(("kinds", list)) => kinds = list.split('+').map(Kind::parse).collect::<Result<_>>()?,
                _ => {
                    return Err(Error::invalid_argument(format!(
                        "layer.fault: `{item}` is no rule; rules are KIND@N, seed=S, every=N and kinds=KIND+KIND"
                    )));
                }
            }
        }
        rules.chance = seed.map(|seed| Chance { seed, every, kinds });
        Ok(rules)
    }

    /// Counts a call; its number if it fails.
    pub(super) fn strikes(&mut self, kind: Kind) -> Option<u64> {
        let count = &mut self.counts[kind as usize];
        *count += 1;
        let count = *count;
        let listed = self.list.contains(&(kind, count));
        let drawn = self
            .chance
            .as_ref()
            .is_some_and(|chance| chance.draws(kind, count));
        (listed || drawn).then_some(count)
    }
}

impl Chance {
    fn draws(&self, kind: Kind, count: u64) -> bool {
        // SplitMix64 of what names the call.
        let mut bits =
            (self.seed ^ ((kind as u64) << 56)).wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.kinds.contains(&kind) && (bits ^ (bits >> 31)).is_multiple_of(self.every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_calls_by_kind_and_number() {
        let mut rules = Rules::parse("alloc@2, later@1").unwrap();
        let struck: Vec<_> = (0..3).map(|_| rules.strikes(Kind::Alloc)).collect();
        assert_eq!(struck, [None, Some(2), None]);
        assert_eq!(
            (rules.strikes(Kind::Later), rules.strikes(Kind::Later)),
            (Some(1), None)
        );
        assert_eq!(Rules::parse("").unwrap(), Rules::default());
    }

    #[test]
    fn a_seed_picks_the_same_calls_every_time() {
        let draw = |text: &str| {
            let mut rules = Rules::parse(text).unwrap();
            (0..1000)
                .filter_map(|_| rules.strikes(Kind::Submit))
                .collect::<Vec<_>>()
        };
        let first = draw("seed=7,every=10");
        assert!((60..140).contains(&first.len()), "{} of 1000", first.len());
        assert_eq!(first, draw("seed=7,every=10,kinds=submit"));
        assert_ne!(first, draw("seed=8,every=10"));
        assert!(draw("seed=7,every=10,kinds=alloc+later").is_empty());
    }

    #[test]
    fn what_is_no_rule_is_an_error() {
        for text in [
            "alloc", "alloc@", "alloc@0", "alok@1", "seed=x", "kinds=", "rate=3",
        ] {
            assert!(Rules::parse(text).is_err(), "{text}");
        }
        let error = Rules::parse("alok@1").unwrap_err().to_string();
        assert!(
            error.contains("there is no fault `alok`; there are alloc, submit"),
            "{error}"
        );
    }
}
