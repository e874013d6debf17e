//! A tree of joins as a graph: inputs, conditions between them, and reducers that only remove rows.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::{Column, DFSchemaRef, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, Join, JoinConstraint, LogicalPlan, Operator, Projection,
};

use crate::query::estimate::{Estimate, UNKNOWN_SHARE, estimate, key_match_share};
use crate::query::join_order::order;
use crate::query::join_order::pairs::passing_share;
use crate::query::join_order::search::{Tree, cheapest_tree};

/// A set of inputs and reducers, by bit: inputs first.
pub type Set = u64;

/// More inputs and reducers than a [`Set`] comfortably searches are left as they are.
const ELEMENTS_MAX: usize = 40;

/// A tree of joins, taken apart.
#[derive(Debug, Default)]
pub struct JoinGraph {
    pub inputs: Vec<Input>,
    /// Columns that are equal to each other in the result.
    pub classes: Vec<EqualColumns>,
    /// Conditions on several inputs that are not equality of columns.
    pub conditions: Vec<Condition>,
    pub reducers: Vec<Reducer>,
}

#[derive(Debug)]
pub struct Input {
    /// Its plan, with its own joins in order.
    pub plan: Arc<LogicalPlan>,
    pub estimate: Estimate,
}

/// Columns of different inputs that a chain of equalities makes equal. Any one equality between two sets of inputs that are
/// joined is enough: within each set the members are equal already.
#[derive(Debug)]
pub struct EqualColumns {
    /// The input, the position in its schema, and the column.
    pub members: Vec<(usize, usize, Column)>,
    pub inputs: Set,
}

impl EqualColumns {
    /// A member that belongs to one of the inputs.
    pub fn member_in(&self, set: Set) -> Option<&(usize, usize, Column)> {
        self.members.iter().find(|(input, ..)| set & (1 << input) != 0)
    }
}

#[derive(Debug)]
pub struct Condition {
    pub expression: Expr,
    pub inputs: Set,
    /// Whether it compares two expressions for equality, and so can be a join key.
    pub is_equality: bool,
    /// The share of combinations of its inputs' rows that satisfy it.
    pub keeps: f64,
}

/// A semi or anti join: keeps or removes the rows that have a partner in its plan.
#[derive(Debug)]
pub struct Reducer {
    join: Join,
    /// The inputs whose columns it looks at.
    pub inputs: Set,
    /// The share of rows that it keeps.
    pub keeps: f64,
    pub rows: f64,
}

impl JoinGraph {
    /// Takes the tree with this root apart, its inputs' own joins ordered; `None` if there is nothing to choose.
    pub fn take_apart(root: &LogicalPlan) -> Result<Option<JoinGraph>> {
        let mut parts = TreeParts::default();
        parts.collect(root)?;
        let elements = parts.inputs.len() + parts.reducers.len();
        if parts.inputs.len() < 2 && parts.reducers.is_empty() || elements > ELEMENTS_MAX {
            return Ok(None);
        }
        let mut graph = JoinGraph::default();
        for input in parts.inputs {
            let plan = order(Arc::unwrap_or_clone(input))?.data;
            graph.inputs.push(Input { estimate: estimate(&plan), plan: Arc::new(plan) });
        }
        for condition in parts.conditions {
            if !graph.add_condition(condition)? {
                return Ok(None);
            }
        }
        graph.equate_within_inputs()?;
        graph.try_conditions();
        for join in parts.reducers {
            if !graph.add_reducer(join)? {
                return Ok(None);
            }
        }
        Ok(Some(graph))
    }

    /// The cheapest tree, with the columns of the original one in their order.
    pub fn put_together(&self, original: &LogicalPlan) -> Result<LogicalPlan> {
        let tree = cheapest_tree(self);
        let plan = self.build(&tree)?;
        let schema: &DFSchemaRef = original.schema();
        if plan.schema().columns() == schema.columns() {
            return Ok(Arc::unwrap_or_clone(plan));
        }
        let columns = schema.columns().into_iter().map(Expr::Column).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(columns, plan)?))
    }

    /// The inputs that an expression names; `None` if it names a column that no input has.
    fn inputs_of(&self, columns: &HashSet<&Column>) -> Option<Set> {
        columns.iter().try_fold(0, |set, column| Some(set | 1 << self.locate(column)?.0))
    }

    fn locate(&self, column: &Column) -> Option<(usize, usize)> {
        self.inputs.iter().enumerate().find_map(|(input, candidate)| {
            candidate.plan.schema().maybe_index_of_column(column).map(|position| (input, position))
        })
    }

    /// Adds a condition of an inner join; false if it cannot be placed.
    fn add_condition(&mut self, expression: Expr) -> Result<bool> {
        let Some(inputs) = self.inputs_of(&expression.column_refs()) else {
            return Ok(false);
        };
        if inputs == 0 {
            return Ok(false);
        }
        if inputs.count_ones() == 1 {
            return self.filter_input(inputs.trailing_zeros() as usize, expression).map(|()| true);
        }
        if let Some((left, right)) = equal_columns(&expression)
            && let (Some(left_place), Some(right_place)) = (self.locate(left), self.locate(right))
            && self.equate((left_place, left.clone()), (right_place, right.clone()))?
        {
            return Ok(true);
        }
        let is_equality = matches!(&expression, Expr::BinaryExpr(binary) if binary.op == Operator::Eq);
        self.conditions.push(Condition { expression, inputs, is_equality, keeps: UNKNOWN_SHARE });
        Ok(true)
    }

    /// Finds out how selective the conditions on several inputs are, once all conditions on single inputs are in place.
    fn try_conditions(&mut self) {
        for condition in &mut self.conditions {
            let named = |(input, _): &(usize, &Input)| condition.inputs & (1 << input) != 0;
            let inputs: Vec<&LogicalPlan> =
                self.inputs.iter().enumerate().filter(named).map(|(_, input)| input.plan.as_ref()).collect();
            condition.keeps = passing_share(&inputs, &condition.expression).unwrap_or(UNKNOWN_SHARE);
        }
    }

    fn filter_input(&mut self, input: usize, predicate: Expr) -> Result<()> {
        let filtered = Filter::try_new(predicate, Arc::clone(&self.inputs[input].plan))?;
        let plan = Arc::new(LogicalPlan::Filter(filtered));
        self.inputs[input] = Input { estimate: estimate(&plan), plan };
        Ok(())
    }

    /// Merges the classes of two columns; false if their types differ.
    fn equate(&mut self, left: ((usize, usize), Column), right: ((usize, usize), Column)) -> Result<bool> {
        let kept = |place: (usize, usize)| self.inputs[place.0].plan.schema().field(place.1).data_type().clone();
        if kept(left.0) != kept(right.0) {
            return Ok(false);
        }
        let mut merged = EqualColumns { members: Vec::new(), inputs: 0 };
        for ((input, position), column) in [left, right] {
            let is_member = |class: &EqualColumns| class.members.iter().any(|m| (m.0, m.1) == (input, position));
            match self.classes.iter().position(is_member) {
                Some(class) => merged.members.extend(self.classes.swap_remove(class).members),
                None if merged.members.iter().any(|m| (m.0, m.1) == (input, position)) => {}
                None => merged.members.push((input, position, column)),
            }
        }
        merged.inputs = merged.members.iter().fold(0, |set, (input, ..)| set | 1 << input);
        self.classes.push(merged);
        Ok(true)
    }

    /// Two members of a class in one input are equal by way of another input; joining on one of them must not forget that.
    fn equate_within_inputs(&mut self) -> Result<()> {
        let mut equalities = Vec::new();
        for class in &self.classes {
            for (number, (input, _, column)) in class.members.iter().enumerate() {
                if let Some((.., first)) = class.members[..number].iter().find(|(other, ..)| other == input) {
                    let equal = Expr::Column(first.clone()).eq(Expr::Column(column.clone()));
                    equalities.push((*input, equal));
                }
            }
        }
        equalities.into_iter().try_for_each(|(input, equal)| self.filter_input(input, equal))
    }

    /// Adds a semi or anti join; false if it cannot be placed.
    fn add_reducer(&mut self, mut join: Join) -> Result<bool> {
        let right = order(Arc::unwrap_or_clone(Arc::clone(&join.right)))?.data;
        join.right = Arc::new(right);
        let mut columns: HashSet<&Column> = join.on.iter().flat_map(|(left, _)| left.column_refs()).collect();
        let filter = join.filter.as_ref().map(|filter| filter.column_refs()).unwrap_or_default();
        columns.extend(filter.into_iter().filter(|column| !join.right.schema().has_column(column)));
        let Some(inputs) = self.inputs_of(&columns).filter(|inputs| *inputs != 0) else {
            return Ok(false);
        };
        let right = estimate(&join.right);
        let share = |(left, partner): &(Expr, Expr)| {
            let Expr::Column(left) = left else { return 1.0 };
            let Some((input, position)) = self.locate(left) else { return 1.0 };
            let partner = partner.try_as_col().and_then(|column| join.right.schema().maybe_index_of_column(column));
            key_match_share(&self.inputs[input].estimate, Some(position), &right, partner)
        };
        let matching = join.on.iter().map(share).fold(1.0, f64::min);
        let keeps = if join.join_type == JoinType::LeftSemi { matching } else { (1.0 - matching).max(0.1) };
        self.reducers.push(Reducer { join, inputs, keeps, rows: right.rows });
        Ok(true)
    }

    fn build(&self, tree: &Tree) -> Result<Arc<LogicalPlan>> {
        match tree {
            Tree::Input(input) => Ok(Arc::clone(&self.inputs[*input].plan)),
            Tree::Reduce { tree, reducer, builds_reducer } => {
                let mut join = self.reducers[*reducer].join.clone();
                join.left = self.build(tree)?;
                // `NOT IN` must know all keys before it lets a row pass: its side cannot be chosen.
                let join = if *builds_reducer && !join.null_aware { turned(join)? } else { join };
                Ok(Arc::new(LogicalPlan::Join(joined_again(join)?)))
            }
            Tree::Join { left, right } => {
                let (on, filter) = self.conditions_between(left.inputs(), right.inputs());
                let join = Join::try_new(
                    self.build(left)?,
                    self.build(right)?,
                    on,
                    filter,
                    JoinType::Inner,
                    JoinConstraint::On,
                    NullEquality::NullEqualsNothing,
                    false,
                )?;
                Ok(Arc::new(LogicalPlan::Join(join)))
            }
        }
    }

    /// The conditions that apply when two sets of inputs are joined: pairs of equal keys, and the other conditions.
    fn conditions_between(&self, left: Set, right: Set) -> (Vec<(Expr, Expr)>, Option<Expr>) {
        let mut on = Vec::new();
        for class in &self.classes {
            if let (Some((.., left)), Some((.., right))) = (class.member_in(left), class.member_in(right)) {
                on.push((Expr::Column(left.clone()), Expr::Column(right.clone())));
            }
        }
        let mut filters = Vec::new();
        for condition in self.conditions.iter().filter(|condition| condition.applies_between(left, right)) {
            match self.equal_sides(&condition.expression, left, right) {
                Some(pair) => on.push(pair),
                None => filters.push(condition.expression.clone()),
            }
        }
        (on, conjunction(filters))
    }

    /// The sides of an equality of expressions, each of which needs only one of the sets.
    fn equal_sides(&self, expression: &Expr, left: Set, right: Set) -> Option<(Expr, Expr)> {
        let Expr::BinaryExpr(BinaryExpr { left: a, op: Operator::Eq, right: b }) = expression else {
            return None;
        };
        let (of_a, of_b) = (self.inputs_of(&a.column_refs())?, self.inputs_of(&b.column_refs())?);
        let within = |part: Set, whole: Set| part != 0 && part & !whole == 0;
        let same = |a: &Expr, a_in: Set, b: &Expr, b_in: Set| {
            let kept = |side: &Expr, set: Set| {
                let input = &self.inputs[set.trailing_zeros() as usize];
                side.get_type(input.plan.schema()).ok()
            };
            // A key over several inputs has no single schema to be typed by; it is left as a filter.
            a_in.count_ones() == 1 && b_in.count_ones() == 1 && kept(a, a_in).is_some_and(|t| kept(b, b_in) == Some(t))
        };
        if !same(a, of_a, b, of_b) {
            None
        } else if within(of_a, left) && within(of_b, right) {
            Some((a.as_ref().clone(), b.as_ref().clone()))
        } else if within(of_b, left) && within(of_a, right) {
            Some((b.as_ref().clone(), a.as_ref().clone()))
        } else {
            None
        }
    }
}

impl Condition {
    /// Whether joining the two sets is the first time that all columns of the condition are present.
    pub fn applies_between(&self, left: Set, right: Set) -> bool {
        self.inputs & !(left | right) == 0 && self.inputs & !left != 0 && self.inputs & !right != 0
    }
}

/// The same join with its sides exchanged, so that the hash table is built from the other one. Where both sides' columns are
/// returned, they come in another order.
pub fn turned(join: Join) -> Result<Join> {
    let on = join.on.into_iter().map(|(left, right)| (right, left)).collect();
    joined_again(Join { left: join.right, right: join.left, on, join_type: join.join_type.swap(), ..join })
}

/// A join with the schema of its sides as they are now.
fn joined_again(join: Join) -> Result<Join> {
    let Join { left, right, on, filter, join_type, join_constraint, null_equality, null_aware, .. } = join;
    Join::try_new(left, right, on, filter, join_type, join_constraint, null_equality, null_aware)
}

/// The pieces of a tree while it is taken apart.
#[derive(Default)]
struct TreeParts {
    inputs: Vec<Arc<LogicalPlan>>,
    conditions: Vec<Expr>,
    reducers: Vec<Join>,
}

impl TreeParts {
    fn collect(&mut self, plan: &LogicalPlan) -> Result<()> {
        match plan {
            LogicalPlan::Join(join) if is_plain_inner(join) => {
                self.collect(&join.left)?;
                self.collect(&join.right)?;
                let keys = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
                self.conditions.extend(keys);
                self.conditions.extend(join.filter.clone().into_iter().flat_map(split_conjunction_owned));
            }
            LogicalPlan::Join(join) if matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti) => {
                self.collect(&join.left)?;
                self.reducers.push(join.clone());
            }
            LogicalPlan::Filter(filter) if is_tree_inside(&filter.input) => {
                self.collect(&filter.input)?;
                self.conditions.extend(split_conjunction_owned(filter.predicate.clone()));
            }
            LogicalPlan::Projection(projection) if is_tree_inside(&projection.input) && is_choice(projection) => {
                self.collect(&projection.input)?;
            }
            input => self.inputs.push(Arc::new(input.clone())),
        }
        Ok(())
    }
}

fn is_plain_inner(join: &Join) -> bool {
    join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing
}

fn is_tree_inside(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) => {
            is_plain_inner(join) || matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        }
        LogicalPlan::Filter(filter) => is_tree_inside(&filter.input),
        LogicalPlan::Projection(projection) => is_choice(projection) && is_tree_inside(&projection.input),
        _ => false,
    }
}

/// Whether a projection only chooses and orders columns.
fn is_choice(projection: &Projection) -> bool {
    projection.expr.iter().all(|expression| matches!(expression, Expr::Column(_)))
}

fn equal_columns(expression: &Expr) -> Option<(&Column, &Column)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = expression else {
        return None;
    };
    Some((left.try_as_col()?, right.try_as_col()?))
}
