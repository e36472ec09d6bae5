//! Describes Arrow columns: one [`Column`] gives both the data type in the schema and the arrays, so that the name of a
//! field and the code that reads its value are on one line.
//!
//! A row may be absent (`None`); then all its columns are null, and so is a struct made from it. Every field is
//! nullable, and the type of a column never depends on its values.

use std::fmt::Display;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use ergometer_units::Timestamp;

/// A column, computed from rows of type `Row`.
pub(super) struct Column<Row> {
    data_type: DataType,
    build: Build<Row>,
}

type Build<Row> = Box<dyn Fn(&[Option<&Row>]) -> ArrayRef + Send + Sync>;

impl<Row> Column<Row> {
    fn new(data_type: DataType, build: impl Fn(&[Option<&Row>]) -> ArrayRef + Send + Sync + 'static) -> Self {
        Self { data_type, build: Box::new(build) }
    }

    /// The schema of a file whose columns are the fields of this struct column.
    pub(super) fn schema(&self) -> SchemaRef {
        match &self.data_type {
            DataType::Struct(fields) => Arc::new(Schema::new(fields.clone())),
            other => Arc::new(Schema::new(vec![Field::new("value", other.clone(), true)])),
        }
    }

    /// A record batch of these rows, whose columns are the fields of this struct column.
    pub(super) fn batch<'a>(&self, rows: impl IntoIterator<Item = &'a Row>) -> RecordBatch
    where
        Row: 'a,
    {
        let rows: Vec<_> = rows.into_iter().map(Some).collect();
        let array = (self.build)(&rows);
        match array.as_any().downcast_ref::<StructArray>() {
            Some(fields) => RecordBatch::from(fields),
            None => RecordBatch::from(StructArray::from(vec![(Arc::clone(&self.schema().fields()[0]), array)])),
        }
    }

    /// A column of doubles.
    pub(super) fn float(read: impl Fn(&Row) -> Option<f64> + Send + Sync + 'static) -> Self {
        Self::new(DataType::Float64, move |rows| {
            Arc::new(rows.iter().map(|row| row.and_then(&read)).collect::<Float64Array>())
        })
    }

    /// A column of 64-bit integers; a number that does not fit is null.
    pub(super) fn integer<Number: TryInto<i64>>(read: impl Fn(&Row) -> Option<Number> + Send + Sync + 'static) -> Self {
        Self::new(DataType::Int64, move |rows| {
            let values = rows.iter().map(|row| row.and_then(&read).and_then(|number| number.try_into().ok()));
            Arc::new(values.collect::<Int64Array>())
        })
    }

    /// A column of booleans.
    pub(super) fn boolean(read: impl Fn(&Row) -> Option<bool> + Send + Sync + 'static) -> Self {
        Self::new(DataType::Boolean, move |rows| {
            Arc::new(rows.iter().map(|row| row.and_then(&read)).collect::<BooleanArray>())
        })
    }

    /// A column of text borrowed from the rows. The texts of a batch must be shorter than 2 GiB in total.
    pub(super) fn text(read: impl Fn(&Row) -> Option<&str> + Send + Sync + 'static) -> Self {
        Self::new(DataType::Utf8, move |rows| {
            Arc::new(rows.iter().map(|row| row.and_then(&read)).collect::<StringArray>())
        })
    }

    /// A column of text formatted with `Display`. The texts of a batch must be shorter than 2 GiB in total.
    pub(super) fn printed<Value: Display>(read: impl Fn(&Row) -> Option<Value> + Send + Sync + 'static) -> Self {
        Self::new(DataType::Utf8, move |rows| {
            let mut texts = StringBuilder::new();
            for row in rows {
                texts.append_option(row.and_then(&read).map(|value| value.to_string()));
            }
            Arc::new(texts.finish())
        })
    }
}

/// The fields of a struct column, added one by one.
pub(super) struct Fields<Row>(Vec<(String, Column<Row>)>);

impl<Row: 'static> Fields<Row> {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a column.
    pub(super) fn add(mut self, name: &str, column: Column<Row>) -> Self {
        self.0.push((name.to_owned(), column));
        self
    }

    /// Adds a column of doubles.
    pub(super) fn float(self, name: &str, read: impl Fn(&Row) -> Option<f64> + Send + Sync + 'static) -> Self {
        self.add(name, Column::float(read))
    }

    /// Adds a column of 64-bit integers; a number that does not fit is null.
    pub(super) fn integer<Number: TryInto<i64>>(
        self,
        name: &str,
        read: impl Fn(&Row) -> Option<Number> + Send + Sync + 'static,
    ) -> Self {
        self.add(name, Column::integer(read))
    }

    /// Adds a column of times, in nanoseconds since the epoch.
    pub(super) fn nanos(self, name: &str, read: impl Fn(&Row) -> Option<Timestamp> + Send + Sync + 'static) -> Self {
        self.integer(name, move |row| read(row).map(Timestamp::nanos_since_epoch))
    }

    /// Adds a column of booleans.
    pub(super) fn boolean(self, name: &str, read: impl Fn(&Row) -> Option<bool> + Send + Sync + 'static) -> Self {
        self.add(name, Column::boolean(read))
    }

    /// Adds a column of text borrowed from the rows.
    pub(super) fn text(self, name: &str, read: impl Fn(&Row) -> Option<&str> + Send + Sync + 'static) -> Self {
        self.add(name, Column::text(read))
    }

    /// Adds a column of text formatted with `Display`.
    pub(super) fn printed<Value: Display>(
        self,
        name: &str,
        read: impl Fn(&Row) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        self.add(name, Column::printed(read))
    }

    /// Adds a column computed from a part of the row; null if the row has no such part.
    pub(super) fn part<Part: 'static>(
        self,
        name: &str,
        read: impl Fn(&Row) -> Option<&Part> + Send + Sync + 'static,
        column: Column<Part>,
    ) -> Self {
        let data_type = column.data_type.clone();
        let part = Column::new(data_type, move |rows: &[Option<&Row>]| {
            let parts: Vec<_> = rows.iter().map(|row| row.and_then(&read)).collect();
            (column.build)(&parts)
        });
        self.add(name, part)
    }

    /// Adds a column of lists; null if the row has no list.
    pub(super) fn list<Item: 'static>(
        self,
        name: &str,
        read: impl Fn(&Row) -> Option<&[Item]> + Send + Sync + 'static,
        item: Column<Item>,
    ) -> Self {
        let field = Arc::new(Field::new("item", item.data_type.clone(), true));
        let data_type = DataType::List(Arc::clone(&field));
        let list = Column::new(data_type, move |rows: &[Option<&Row>]| {
            let lists: Vec<_> = rows.iter().map(|row| row.and_then(&read)).collect();
            let offsets = OffsetBuffer::from_lengths(lists.iter().map(|list| list.map_or(0, <[Item]>::len)));
            let items: Vec<_> = lists.iter().flatten().flat_map(|list| list.iter()).map(Some).collect();
            Arc::new(ListArray::new(Arc::clone(&field), offsets, (item.build)(&items), presence(&lists)))
        });
        self.add(name, list)
    }

    /// The struct column, null for an absent row. There must be at least one field.
    pub(super) fn column(self) -> Column<Row> {
        let field = |(name, column): &(String, Column<Row>)| Field::new(name, column.data_type.clone(), true);
        let fields: arrow_schema::Fields = self.0.iter().map(field).collect();
        Column::new(DataType::Struct(fields.clone()), move |rows| {
            let arrays = self.0.iter().map(|(_, column)| (column.build)(rows)).collect();
            Arc::new(StructArray::new(fields.clone(), arrays, presence(rows)))
        })
    }
}

/// The validity bitmap; `None` if all rows are present, as Arrow then needs none.
fn presence<Row: Copy>(rows: &[Option<Row>]) -> Option<NullBuffer> {
    let absent = rows.iter().any(Option::is_none);
    absent.then(|| rows.iter().map(Option::is_some).collect::<Vec<_>>().into())
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int64Type};
    use arrow_array::{Array, types::ArrowPrimitiveType};

    use super::*;

    struct Body {
        name: &'static str,
        mass: Option<f64>,
        age: u64,
        moons: Vec<Moon>,
        star: Option<Moon>,
    }

    struct Moon {
        seen: Option<bool>,
        at: i64,
    }

    fn column() -> Column<Body> {
        let moon = || {
            Fields::<Moon>::new()
                .boolean("seen", |moon| moon.seen)
                .nanos("at_ns", |moon| Some(Timestamp::from_nanos_since_epoch(moon.at)))
                .column()
        };
        Fields::<Body>::new()
            .text("name", |body| Some(body.name))
            .float("mass", |body| body.mass)
            .integer("age", |body| Some(body.age))
            .printed("printed", |body| body.mass)
            .list("moons", |body| (body.age > 0).then_some(body.moons.as_slice()), moon())
            .part("star", |body| body.star.as_ref(), moon())
            .column()
    }

    fn values<T: ArrowPrimitiveType>(array: &dyn Array) -> Vec<Option<T::Native>> {
        array.as_primitive::<T>().iter().collect()
    }

    #[test]
    fn absent_values_and_parts_are_null() {
        let rows = [
            Body { name: "é/.", mass: Some(1.5), age: 3, moons: vec![], star: None },
            Body {
                name: "",
                mass: None,
                age: u64::MAX,
                moons: vec![Moon { seen: None, at: 5 }, Moon { seen: Some(true), at: -6 }],
                star: Some(Moon { seen: None, at: 7 }),
            },
            Body { name: "c", mass: Some(2.0), age: 0, moons: vec![], star: None },
        ];
        let batch = column().batch(&rows);
        assert_eq!(batch.schema(), column().schema());
        assert_eq!(batch["name"].as_string::<i32>().iter().collect::<Vec<_>>(), [Some("é/."), Some(""), Some("c")]);
        assert_eq!(values::<Float64Type>(&batch["mass"]), [Some(1.5), None, Some(2.0)]);
        assert_eq!(values::<Int64Type>(&batch["age"]), [Some(3), None, Some(0)], "a number larger than an i64 is null");
        assert_eq!(batch["printed"].as_string::<i32>().iter().collect::<Vec<_>>(), [Some("1.5"), None, Some("2")]);
        let moons = batch["moons"].as_list::<i32>();
        assert_eq!(
            (moons.is_null(0), moons.value_length(0), moons.value_length(1), moons.is_null(2)),
            (false, 0, 2, true)
        );
        assert_eq!(values::<Int64Type>(&moons.value(1).as_struct()["at_ns"]), [Some(5), Some(-6)]);
        let star = batch["star"].as_struct();
        assert_eq!([0, 1, 2].map(|row| star.is_null(row)), [true, false, true]);
        assert_eq!(values::<Int64Type>(&star["at_ns"]), [None, Some(7), None]);
    }

    #[test]
    fn an_empty_batch_has_the_same_schema() {
        let batch = column().batch(&[]);
        assert_eq!((batch.num_rows(), batch.schema()), (0, column().schema()));
        let alone = Column::float(|mass: &f64| Some(*mass));
        assert_eq!((alone.batch(&[1.0]).num_rows(), alone.schema().field(0).name().as_str()), (1, "value"));
    }
}
