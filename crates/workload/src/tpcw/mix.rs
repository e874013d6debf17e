//! The fourteen interactions and how often each is drawn (TPC-W 5.2).

use super::random::Random;

/// The interactions, in the order of [`INTERACTIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Interaction {
    Home,
    NewProducts,
    BestSellers,
    ProductDetail,
    SearchRequest,
    SearchResults,
    ShoppingCart,
    CustomerRegistration,
    BuyRequest,
    BuyConfirm,
    OrderInquiry,
    OrderDisplay,
    AdminRequest,
    AdminConfirm,
}

use Interaction::*;

/// Each interaction with its name, in order.
pub(super) const INTERACTIONS: [(Interaction, &str); 14] = [
    (Home, "home"),
    (NewProducts, "new_products"),
    (BestSellers, "best_sellers"),
    (ProductDetail, "product_detail"),
    (SearchRequest, "search_request"),
    (SearchResults, "search_results"),
    (ShoppingCart, "shopping_cart"),
    (CustomerRegistration, "customer_registration"),
    (BuyRequest, "buy_request"),
    (BuyConfirm, "buy_confirm"),
    (OrderInquiry, "order_inquiry"),
    (OrderDisplay, "order_display"),
    (AdminRequest, "admin_request"),
    (AdminConfirm, "admin_confirm"),
];

pub(super) const MIXES: [&str; 3] = ["browsing", "shopping", "ordering"];

/// How often each interaction is drawn of 10,000, mix by mix (TPC-W 5.2.1).
const SHARES: [[i64; 14]; 3] = [
    [2_900, 1_100, 1_100, 2_100, 1_200, 1_100, 200, 82, 75, 69, 30, 25, 10, 9],
    [1_600, 500, 500, 1_700, 2_000, 1_700, 1_160, 300, 260, 120, 75, 66, 10, 9],
    [912, 46, 46, 1_235, 1_453, 1_308, 1_353, 1_286, 1_273, 1_018, 25, 22, 12, 11],
];

/// Of how many draws the shares are.
const DRAWS: i64 = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mix(&'static [i64; 14]);

impl Mix {
    /// The mix of that name.
    ///
    /// # Panics
    /// If there is none, which the parameter does not allow.
    pub(super) fn named(name: &str) -> Self {
        let mix = MIXES.iter().position(|mix| *mix == name);
        Mix(&SHARES[mix.unwrap_or_else(|| panic!("there is no mix `{name}`"))])
    }

    /// Draws an interaction, independently of those before.
    pub(super) fn draw(self, random: &mut Random) -> Interaction {
        let mut number = random.uniform(0, DRAWS - 1);
        for ((interaction, _), share) in INTERACTIONS.into_iter().zip(self.0) {
            if number < *share {
                return interaction;
            }
            number -= share;
        }
        unreachable!("the shares add up to {DRAWS}")
    }

    fn probability(self, interaction: usize) -> f64 {
        self.0[interaction] as f64 / DRAWS as f64
    }

    /// Every interaction's name and probability.
    pub(super) fn names_with_probabilities(self) -> impl Iterator<Item = (&'static str, f64)> {
        INTERACTIONS.into_iter().map(move |(interaction, name)| (name, self.probability(interaction as usize)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_browse_as_much_as_the_mix_is_named_for() {
        for (shares, browsing) in SHARES.iter().zip([9_500, 8_000, 5_000]) {
            assert_eq!(shares.iter().sum::<i64>(), DRAWS);
            assert_eq!(shares[..6].iter().sum::<i64>(), browsing);
        }
        assert!(INTERACTIONS.iter().enumerate().all(|(at, (interaction, _))| *interaction as usize == at));
    }

    #[test]
    fn interactions_are_drawn_as_often_as_they_should_be() {
        for name in MIXES {
            let (mix, mut random) = (Mix::named(name), Random::new(5, 1, 0));
            let mut drawn = [0u32; 14];
            for _ in 0..100_000 {
                drawn[mix.draw(&mut random) as usize] += 1;
            }
            for (at, count) in drawn.iter().enumerate() {
                let expected = 100_000.0 * mix.probability(at);
                assert!((f64::from(*count) - expected).abs() < 5.0 * expected.sqrt() + 1.0, "{name} {at}: {count}");
            }
        }
    }
}
