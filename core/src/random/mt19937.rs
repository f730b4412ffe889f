//! The Mersenne Twister as NumPy's legacy `RandomState` has it.

const N: usize = 624;
const M: usize = 397;

/// MT19937 (Matsumoto and Nishimura 1998): the same seed gives the same sequence as `numpy.random.seed`.
///
/// ```
/// use thalweg::random::Mt19937;
/// assert_eq!(Mt19937::new(0).random(), 0.5488135039273248);
/// ```
#[derive(Clone, Debug)]
pub struct Mt19937 {
    state: [u32; N],
    next: usize,
}

impl Mt19937 {
    /// As `numpy.random.seed(seed)`.
    pub fn new(seed: u32) -> Mt19937 {
        let mut state = [0; N];
        let mut word = seed;
        for (index, slot) in (1_u32..).zip(&mut state) {
            *slot = word;
            word = 1_812_433_253_u32
                .wrapping_mul(word ^ (word >> 30))
                .wrapping_add(index);
        }
        Mt19937 { state, next: N }
    }

    /// As `numpy.random.seed([…])`; an empty key reads as `[0]`.
    pub fn from_key(key: &[u32]) -> Mt19937 {
        let key = if key.is_empty() { &[0] } else { key };
        let mut generator = Mt19937::new(19_650_218);
        let state = &mut generator.state;
        let mut i = 1;
        let mut step = |state: &mut [u32; N], factor: u32, add: &dyn Fn(usize) -> u32| {
            let mixed = (state[i - 1] ^ (state[i - 1] >> 30)).wrapping_mul(factor);
            state[i] = (state[i] ^ mixed).wrapping_add(add(i));
            i += 1;
            if i == N {
                state[0] = state[N - 1];
                i = 1;
            }
        };
        for j in (0..key.len()).cycle().take(N.max(key.len())) {
            step(state, 1_664_525, &|_| key[j].wrapping_add(j as u32));
        }
        for _ in 1..N {
            step(state, 1_566_083_941, &|i| (i as u32).wrapping_neg());
        }
        state[0] = 0x8000_0000;
        generator
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.next == N {
            self.refill();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// The next double in `[0, 1)` with 53 random bits, as `numpy.random.random`.
    pub fn random(&mut self) -> f64 {
        let (high, low) = (self.next_u32() >> 5, self.next_u32() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }

    fn refill(&mut self) {
        for i in 0..N {
            let word = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
            let twist = if word & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + M) % N] ^ (word >> 1) ^ twist;
        }
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first values and the 2000th.
    fn check(mut generator: Mt19937, first: &[f64], last: f64) {
        let values: Vec<f64> = (0..2000).map(|_| generator.random()).collect();
        assert_eq!((&values[..first.len()], values[1999]), (first, last));
    }

    #[test]
    fn doubles_are_those_of_numpy() {
        let zero = [0.5488135039273248, 0.7151893663724195, 0.6027633760716439];
        check(Mt19937::new(0), &zero, 0.5017731306999452);
        let answer = [0.3745401188473625, 0.9507143064099162, 0.7319939418114051];
        check(Mt19937::new(42), &answer, 0.28218707469320015);
        let most = [0.0976320289940138, 0.9123828453026218, 0.78903530185164];
        check(Mt19937::new(u32::MAX), &most, 0.17947030169391298);
    }

    #[test]
    fn keys_seed_as_in_numpy() {
        let short = [0.6098612722867289, 0.8866970434146851, 0.47633673750662764];
        check(Mt19937::from_key(&[1, 2, 3]), &short, 0.39064243075633576);
        let long: Vec<u32> = (0..700).collect();
        let values = [0.867898393018711, 0.9148838731573538];
        check(Mt19937::from_key(&long), &values, 0.7676940218913658);
    }

    #[test]
    fn the_reference_seed_gives_the_reference_words() {
        let mut generator = Mt19937::new(5489);
        let words = [0; 4].map(|_| generator.next_u32());
        assert_eq!(words, [3499211612, 581869302, 3890346734, 3586334585]);
    }
}
