# Rails' ActiveRecord: `annotate` adds the tag to the queries of a relation. See ../README.md.

require "active_record"

ActiveRecord::Base.establish_connection(
  adapter: "postgresql",
  host: ENV.fetch("PGHOST"),
  port: ENV.fetch("PGPORT").to_i,
  username: ENV.fetch("PGUSER"),
  password: ENV.fetch("PGPASSWORD"),
  database: ENV.fetch("PGDATABASE")
)

class Hot < ActiveRecord::Base
  self.table_name = "hot"
end

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
