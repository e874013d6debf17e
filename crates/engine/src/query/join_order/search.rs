//! The cheapest join tree: dynamic programming over subsets, bushy trees included (Moerkotte and Neumann, "Analysis of two
//! existing and one new dynamic programming algorithm for the generation of optimal bushy join trees", 2006); greedy where there
//! are too many inputs for that.

use std::collections::HashMap;
use std::sync::Arc;

use crate::query::join_order::graph::{JoinGraph, Set};

/// Inputs and reducers up to which every tree is looked at: 3^11 splits take some milliseconds.
const EXHAUSTIVE_MAX: usize = 11;

/// The cost of a row that is put into a hash table, relative to one that is looked up or returned.
const BUILD_COST: f64 = 2.0;

#[derive(Debug, Clone)]
pub enum Tree {
    Input(usize),
    /// An inner join; the smaller side is left.
    Join {
        /// The side from which the hash table is built.
        left: Arc<Tree>,
        /// The side that looks rows up.
        right: Arc<Tree>,
    },
    /// A semi or anti join.
    Reduce {
        tree: Arc<Tree>,
        reducer: usize,
        /// Whether the hash table is built from the reducer's plan, which then is the smaller side.
        builds_reducer: bool,
    },
}

impl Tree {
    pub fn inputs(&self) -> Set {
        match self {
            Tree::Input(input) => 1 << input,
            Tree::Join { left, right } => left.inputs() | right.inputs(),
            Tree::Reduce { tree, .. } => tree.inputs(),
        }
    }
}

#[derive(Debug, Clone)]
struct Candidate {
    tree: Arc<Tree>,
    inputs: Set,
    rows: f64,
    cost: f64,
}

/// The cheapest tree over all inputs and reducers of a graph.
pub fn cheapest_tree(graph: &JoinGraph) -> Tree {
    let candidate = if graph.inputs.len() + graph.reducers.len() <= EXHAUSTIVE_MAX { exhaustive(graph) } else { None };
    let candidate = candidate.unwrap_or_else(|| greedy(graph));
    Arc::unwrap_or_clone(candidate.tree)
}

fn leaf(graph: &JoinGraph, input: usize) -> Candidate {
    let rows = graph.inputs[input].estimate.rows;
    Candidate { tree: Arc::new(Tree::Input(input)), inputs: 1 << input, rows, cost: 0.0 }
}

fn exhaustive(graph: &JoinGraph) -> Option<Candidate> {
    let inputs = graph.inputs.len();
    let all: Set = (1 << (inputs + graph.reducers.len())) - 1;
    let input_bits: Set = (1 << inputs) - 1;
    let islands = islands(graph);
    let mut best: HashMap<Set, Candidate> = (0..inputs).map(|input| (1 << input, leaf(graph, input))).collect();
    for set in 1..=all {
        let mut found = best.remove(&set);
        for (number, reducer) in graph.reducers.iter().enumerate() {
            let bit = 1 << (inputs + number);
            if set & bit != 0
                && reducer.inputs & !set == 0
                && let Some(before) = best.get(&(set & !bit))
            {
                keep_cheaper(&mut found, reduce(graph, before, number));
            }
        }
        // Every proper subset that contains the lowest bit, so that no pair is looked at twice.
        let lowest = set & set.wrapping_neg();
        let rest = set & !lowest;
        let mut part = rest;
        while part != 0 {
            part = (part - 1) & rest;
            let (one, other) = (part | lowest, rest & !part);
            if other & input_bits != 0
                && let (Some(a), Some(b)) = (best.get(&one), best.get(&other))
                && may_join(graph, &islands, a.inputs, b.inputs)
            {
                keep_cheaper(&mut found, join(graph, a, b));
            }
        }
        if let Some(found) = found {
            best.insert(set, found);
        }
    }
    best.remove(&all)
}

fn keep_cheaper(found: &mut Option<Candidate>, candidate: Candidate) {
    if found.as_ref().is_none_or(|found| candidate.cost < found.cost) {
        *found = Some(candidate);
    }
}

/// Merges the two inputs with the smallest result again and again; reducers as soon as they can.
fn greedy(graph: &JoinGraph) -> Candidate {
    let mut parts: Vec<Candidate> = (0..graph.inputs.len()).map(|input| leaf(graph, input)).collect();
    let mut reducers: Vec<usize> = (0..graph.reducers.len()).collect();
    loop {
        for part in &mut parts {
            let (now, later) = reducers.iter().partition(|&&number| graph.reducers[number].inputs & !part.inputs == 0);
            reducers = later;
            let now: Vec<usize> = now;
            now.into_iter().for_each(|number| *part = reduce(graph, part, number));
        }
        let pairs = (0..parts.len()).flat_map(|a| (a + 1..parts.len()).map(move |b| (a, b)));
        // A product only when nothing else is left.
        let size = |&(a, b): &(usize, usize)| {
            let is_product = !connected(graph, parts[a].inputs, parts[b].inputs);
            (is_product, join(graph, &parts[a], &parts[b]).rows)
        };
        let smaller = |x: &(usize, usize), y: &(usize, usize)| {
            let (x, y) = (size(x), size(y));
            x.0.cmp(&y.0).then(x.1.total_cmp(&y.1))
        };
        let Some((a, b)) = pairs.min_by(smaller) else {
            return parts.pop().expect("a graph has at least one input");
        };
        let joined = join(graph, &parts[a], &parts[b]);
        parts.swap_remove(b);
        parts[a] = joined;
    }
}

fn connected(graph: &JoinGraph, left: Set, right: Set) -> bool {
    graph.classes.iter().any(|class| class.inputs & left != 0 && class.inputs & right != 0)
        || graph.conditions.iter().any(|condition| condition.applies_between(left, right))
}

/// The sets of inputs that no condition connects with the rest: only between them a product is unavoidable.
fn islands(graph: &JoinGraph) -> Vec<Set> {
    let edges = graph.classes.iter().map(|class| class.inputs).chain(graph.conditions.iter().map(|c| c.inputs));
    let mut islands: Vec<Set> = (0..graph.inputs.len()).map(|input| 1 << input).collect();
    for edge in edges {
        let (joined, apart): (Vec<Set>, Vec<Set>) = islands.iter().partition(|island| **island & edge != 0);
        islands = apart;
        islands.push(joined.into_iter().fold(0, |a, b| a | b));
    }
    islands
}

fn may_join(graph: &JoinGraph, islands: &[Set], left: Set, right: Set) -> bool {
    let whole = |set: Set| islands.iter().all(|island| set & island == 0 || island & !set == 0);
    connected(graph, left, right) || (whole(left) && whole(right))
}

fn reduce(graph: &JoinGraph, candidate: &Candidate, number: usize) -> Candidate {
    let reducer = &graph.reducers[number];
    let rows = (candidate.rows * reducer.keeps).max(1.0);
    let work = BUILD_COST * candidate.rows.min(reducer.rows) + candidate.rows.max(reducer.rows) + rows;
    let builds_reducer = reducer.rows < candidate.rows;
    let tree = Arc::new(Tree::Reduce { tree: Arc::clone(&candidate.tree), reducer: number, builds_reducer });
    Candidate { tree, inputs: candidate.inputs, rows, cost: candidate.cost + work }
}

fn join(graph: &JoinGraph, a: &Candidate, b: &Candidate) -> Candidate {
    let (small, large) = if a.rows <= b.rows { (a, b) } else { (b, a) };
    let has_keys = graph.classes.iter().any(|class| class.inputs & a.inputs != 0 && class.inputs & b.inputs != 0)
        || graph
            .conditions
            .iter()
            .any(|condition| condition.is_equality && condition.applies_between(a.inputs, b.inputs));
    let rows = (a.rows * b.rows * selectivity(graph, a.inputs, b.inputs)).max(1.0);
    // Without keys every pair of rows is looked at.
    let work = if has_keys { BUILD_COST * small.rows + large.rows + rows } else { a.rows * b.rows + rows };
    let tree = Arc::new(Tree::Join { left: Arc::clone(&small.tree), right: Arc::clone(&large.tree) });
    Candidate { tree, inputs: a.inputs | b.inputs, rows, cost: a.cost + b.cost + work }
}

/// The share of all pairs of rows that satisfy the conditions between two sets of inputs.
fn selectivity(graph: &JoinGraph, left: Set, right: Set) -> f64 {
    let mut open: Vec<usize> = Vec::new();
    for (number, class) in graph.classes.iter().enumerate() {
        if class.inputs & left != 0 && class.inputs & right != 0 {
            open.push(number);
        }
    }
    let mut selectivity = 1.0;
    // A unique key of an input that is joined on as a whole: each partner finds at most one row of it.
    while let Some((covered, rows)) = covered_key(graph, &open, left | right) {
        selectivity /= rows.max(1.0);
        open.retain(|class| !covered.contains(class));
    }
    for class in open {
        let class = &graph.classes[class];
        let domain = |set: Set| {
            let members = class.members.iter().filter(|(input, ..)| set & (1 << input) != 0);
            let domains = members.map(|(input, position, _)| graph.inputs[*input].estimate.columns[*position].domain);
            domains.reduce(f64::min).unwrap_or(1.0)
        };
        selectivity /= domain(left).max(domain(right)).max(1.0);
    }
    let others = graph.conditions.iter().filter(|condition| condition.applies_between(left, right));
    selectivity * others.map(|condition| condition.keeps).product::<f64>()
}

/// A unique key of some input all of whose columns are in open classes: those classes, and the rows of the key's table.
fn covered_key(graph: &JoinGraph, open: &[usize], set: Set) -> Option<(Vec<usize>, f64)> {
    let inputs = (0..graph.inputs.len()).filter(|input| set & (1 << input) != 0);
    let keys = inputs.flat_map(|input| graph.inputs[input].estimate.unique.iter().map(move |key| (input, key)));
    let covered = keys.filter_map(|(input, (key, rows))| {
        let class_of = |position: &usize| {
            let is_member = |class: &&usize| {
                graph.classes[**class].members.iter().any(|member| (member.0, member.1) == (input, *position))
            };
            open.iter().find(is_member).copied()
        };
        let classes: Vec<usize> = key.iter().map(class_of).collect::<Option<_>>()?;
        (!classes.is_empty()).then_some((classes, *rows))
    });
    // The key that explains most conditions at once; of those, the one with most rows.
    covered.max_by(|a, b| a.0.len().cmp(&b.0.len()).then(a.1.total_cmp(&b.1)))
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::LogicalPlanBuilder;

    use super::*;
    use crate::query::estimate::Estimate;
    use crate::query::join_order::graph::Input;

    #[test]
    fn of_products_the_smallest_comes_first() {
        let input = |at: usize| {
            let estimate = Estimate { rows: 100.0 - at as f64, columns: Vec::new(), unique: Vec::new() };
            Input { plan: Arc::new(LogicalPlanBuilder::empty(false).build().expect("nothing can be wrong")), estimate }
        };
        // Too many for all trees to be looked at; the last two are the smallest.
        let count = EXHAUSTIVE_MAX + 1;
        let graph = JoinGraph { inputs: (0..count).map(input).collect(), ..JoinGraph::default() };
        let mut sets = Vec::new();
        collect_sets(&cheapest_tree(&graph), &mut sets);
        assert!(sets.contains(&(0b11 << (count - 2))), "{sets:?}");
        assert!(!sets.contains(&(1 | 1 << (count - 1))), "{sets:?}");
    }

    fn collect_sets(tree: &Tree, sets: &mut Vec<Set>) {
        if let Tree::Join { left, right } = tree {
            sets.push(tree.inputs());
            collect_sets(left, sets);
            collect_sets(right, sets);
        }
    }
}
