//! A client: a browser in which one user after another visits the shop.
//!
//! Interactions are drawn independently of each other. The visit connects them: a browser remembers its customer and
//! its cart until the visit ends.

use std::sync::Arc;

use super::Tpcw;
use super::admin::AdminConfirm;
use super::audit::Audit;
use super::browse::{best_sellers, home, new_products, product_detail, promotions};
use super::cart::{Change, ShoppingCart};
use super::customer::{BuyRequest, registration_form};
use super::mix::{Interaction, Mix};
use super::numbers::Numbers;
use super::order::BuyConfirm;
use super::order_display::order_display;
use super::population::{DAY_US, LOAD_DAY};
use super::random::Random;
use super::search::Search;
use super::shop::Shop;
use super::size::Size;
use super::words::SUBJECTS;
use crate::benchmark::{Client, Outcome};
use crate::database::{DatabaseError, Session};
use crate::statement::Rows;

/// The purpose of a client's random numbers; those of the tables are below it.
const CLIENT: u64 = 100;

/// The percentage of visits whose customer is known from the start (TPC-W 2.1, 5.3).
pub(super) const KNOWN_PERCENT: i64 = 80;

/// How many interactions a visit has on average: 15 minutes with 7 s of thinking before each (TPC-W 5.3).
const VISIT_MEAN: f64 = 128.0;

/// The longest visit: an hour.
const VISIT_MAX: i64 = 512;

/// Between two interactions of a client, by the clock that stamps rows.
const TICK_US: i64 = 10_000;

/// An interaction with all of its input except the browser's state.
#[expect(clippy::enum_variant_names, reason = "the names of TPC-W")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Home { promoted: i64 },
    NewProducts { subject: &'static str, promoted: i64 },
    BestSellers { subject: &'static str, promoted: i64 },
    ProductDetail { item: i64 },
    SearchRequest { promoted: i64 },
    SearchResults { search: Search, promoted: i64 },
    ShoppingCart(ShoppingCart),
    CustomerRegistration,
    BuyRequest(BuyRequest),
    BuyConfirm(BuyConfirm),
    OrderInquiry { customer: i64 },
    OrderDisplay { customer: i64 },
    AdminRequest { item: i64 },
    AdminConfirm(AdminConfirm),
}

/// The state of a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Visit {
    pub(super) customer: Option<i64>,
    pub(super) cart: Option<i64>,
    /// The item that was shown last.
    pub(super) item: i64,
    /// How many interactions are left.
    left: i64,
}

#[derive(Debug)]
pub(super) struct TpcwClient {
    random: Random,
    size: Size,
    mix: Mix,
    visit: Visit,
    request: Option<Request>,
    interaction: Interaction,
    clock_us: i64,
    rows: Rows,
    numbers: Arc<Numbers>,
    audit: Arc<Audit>,
}

impl TpcwClient {
    pub(super) fn new(benchmark: &Tpcw, number: usize, seed: u64) -> Self {
        TpcwClient {
            random: Random::new(seed, CLIENT, number as u64),
            size: benchmark.size,
            mix: benchmark.mix,
            visit: Visit { customer: None, cart: None, item: 1, left: 0 },
            request: None,
            interaction: Interaction::Home,
            // Running begins the day after loading.
            clock_us: (LOAD_DAY + 1) * DAY_US,
            rows: Rows::new(),
            numbers: benchmark.numbers.clone(),
            audit: benchmark.audit.clone(),
        }
    }

    /// The request drawn last, and the browser's state.
    #[cfg(test)]
    pub(super) fn request(&self) -> (Option<Request>, Visit) {
        (self.request, self.visit)
    }

    /// The next user opens the browser.
    fn begin_visit(&mut self) {
        let is_known = self.random.uniform(1, 100) <= KNOWN_PERCENT;
        let customer = self.customer();
        let left = (1 + self.random.exponential(VISIT_MEAN) as i64).min(VISIT_MAX);
        self.visit = Visit { customer: is_known.then_some(customer), cart: None, item: self.item(), left };
        self.audit.visit(is_known);
    }

    fn customer(&mut self) -> i64 {
        self.random.non_uniform(self.size.customer_bits(), 1, self.size.customers())
    }

    fn item(&mut self) -> i64 {
        self.random.uniform(1, self.size.items)
    }

    fn seed(&mut self) -> u64 {
        self.random.uniform(0, i64::MAX - 1) as u64
    }

    fn search(&mut self) -> Search {
        let bits = self.size.item_bits();
        match self.random.uniform(1, 3) {
            1 => Search::Author(self.random.non_uniform(bits, 0, self.size.author_words() - 1)),
            2 => Search::Title(self.random.non_uniform(bits, 0, self.size.title_words() - 1)),
            _ => Search::Subject(self.random.one_of(&SUBJECTS)),
        }
    }

    fn shopping_cart(&mut self) -> ShoppingCart {
        let change = match self.random.uniform(0, 1) {
            0 => Change::Add(self.visit.item),
            _ => Change::Refresh(self.seed()),
        };
        ShoppingCart { change, fallback: self.item(), promoted: self.item() }
    }

    fn draw_request(&mut self, interaction: Interaction) -> Request {
        match interaction {
            Interaction::Home => Request::Home { promoted: self.item() },
            Interaction::NewProducts => {
                Request::NewProducts { subject: self.random.one_of(&SUBJECTS), promoted: self.item() }
            }
            Interaction::BestSellers => {
                Request::BestSellers { subject: self.random.one_of(&SUBJECTS), promoted: self.item() }
            }
            Interaction::ProductDetail => Request::ProductDetail { item: self.item() },
            Interaction::SearchRequest => Request::SearchRequest { promoted: self.item() },
            Interaction::SearchResults => Request::SearchResults { search: self.search(), promoted: self.item() },
            Interaction::ShoppingCart => Request::ShoppingCart(self.shopping_cart()),
            Interaction::CustomerRegistration => Request::CustomerRegistration,
            Interaction::BuyRequest => {
                Request::BuyRequest(BuyRequest { registration: self.seed(), fallback: self.item() })
            }
            Interaction::BuyConfirm => {
                let customer = self.customer();
                Request::BuyConfirm(BuyConfirm { customer, details: self.seed(), fallback: self.item() })
            }
            Interaction::OrderInquiry => Request::OrderInquiry { customer: self.customer() },
            Interaction::OrderDisplay => Request::OrderDisplay { customer: self.customer() },
            Interaction::AdminRequest => Request::AdminRequest { item: self.item() },
            Interaction::AdminConfirm => {
                let (item, cost) = (self.item(), self.random.uniform(100, 99_999));
                Request::AdminConfirm(AdminConfirm { item, cost, items: self.size.items })
            }
        }
    }
}

/// Runs a request within a transaction, and returns the browser's new state.
fn run(request: &Request, visit: Visit, shop: &mut Shop<'_>) -> Result<Visit, DatabaseError> {
    let mut after = visit;
    match request {
        Request::Home { promoted } => home(shop, visit.customer, *promoted)?,
        Request::NewProducts { subject, promoted } => new_products(shop, subject, *promoted)?,
        Request::BestSellers { subject, promoted } => best_sellers(shop, subject, *promoted)?,
        Request::ProductDetail { item } => {
            product_detail(shop, *item)?;
            after.item = *item;
        }
        Request::SearchRequest { promoted } => promotions(shop, *promoted)?,
        Request::SearchResults { search, promoted } => search.run(shop, *promoted)?,
        Request::ShoppingCart(input) => after.cart = Some(input.run(shop, visit.cart)?),
        Request::CustomerRegistration => registration_form(shop, visit.customer)?,
        Request::BuyRequest(input) => {
            let (customer, cart) = input.run(shop, visit.customer, visit.cart)?;
            (after.customer, after.cart) = (Some(customer), Some(cart));
        }
        Request::BuyConfirm(input) => {
            let (customer, cart) = input.run(shop, visit.customer, visit.cart)?;
            (after.customer, after.cart) = (Some(customer), Some(cart));
        }
        Request::OrderInquiry { customer } => registration_form(shop, visit.customer.or(Some(*customer)))?,
        Request::OrderDisplay { customer } => order_display(shop, visit.customer.unwrap_or(*customer))?,
        Request::AdminRequest { item } => product_detail(shop, *item)?,
        Request::AdminConfirm(input) => input.run(shop)?,
    }
    Ok(after)
}

impl Client for TpcwClient {
    fn draw(&mut self) -> usize {
        self.clock_us += TICK_US;
        if self.visit.left == 0 {
            self.begin_visit();
        }
        self.visit.left -= 1;
        self.interaction = self.mix.draw(&mut self.random);
        self.request = Some(self.draw_request(self.interaction));
        self.interaction as usize
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        let request = self.request.as_ref().expect("the driver draws before it runs");
        self.numbers.prepare(session, &mut self.rows)?;
        let mut shop = Shop { session, rows: &mut self.rows, numbers: &self.numbers, now: self.clock_us };
        shop.session.begin()?;
        let after = run(request, self.visit, &mut shop)?;
        shop.session.commit()?;
        match request {
            // The rows of the last statement are the search's result.
            Request::SearchResults { .. } => self.audit.search(!self.rows.is_empty()),
            Request::BuyRequest(_) => self.audit.buy_request(self.visit.customer.is_none()),
            _ => {}
        }
        self.visit = after;
        self.audit.completed(self.interaction);
        Ok(Outcome::Committed)
    }
}
