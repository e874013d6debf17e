# Rails' ActiveRecord: `annotate` adds the tag to the queries of a relation. See ../README.md.

require_relative "active_record_hot"

connect

# Asked for at the first use, which would else be within the first transaction, before its first tag.
Hot.columns

nightly = Hot.annotate("class='nightly'")

2.times do
  Hot.transaction do
    nightly.where("id > ?", 0).count
    Hot.first
  end
end
Hot.transaction { Hot.first }
nightly.where(id: 1).to_a

puts "ok class"
