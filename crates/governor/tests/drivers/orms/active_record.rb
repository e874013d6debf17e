# Rails' ActiveRecord: transactions with row locks, optimistic locks and savepoints, while others hold the same rows. See ../README.md.

require_relative "active_record_hot"

CONTENDERS = 4
ROUNDS = 10
RETRIED = [ActiveRecord::SerializationFailure, ActiveRecord::Deadlocked, ActiveRecord::StaleObjectError].freeze

connect(pool: CONTENDERS + 1)

class Item < ActiveRecord::Base
  self.table_name = "record_items"
end

def fail!(what)
  warn "failed: #{what}"
  exit 1
end

def sums
  [Hot.where(id: 1..3).sum(:low), Item.sum(:total)]
end

def work
  Hot.transaction do
    rows = Hot.where(id: 1..3).order(:id).lock.to_a
    rows.each { |row| row.update!(low: row.low + 1) }
    # A part that fails is undone by a savepoint, and the rest goes on.
    begin
      Item.transaction(requires_new: true) { Item.create!(name: "counted") }
      fail!("the name was there already")
    rescue ActiveRecord::RecordNotUnique
      nil
    end
    item = Item.find_by!(name: "counted")
    # By lock_version: an update of a row that another transaction has changed finds none, and is an error.
    item.update!(total: item.total + 3)
  end
end

def retried
  yield
rescue *RETRIED
  retry
end

def in_threads
  threads = Array.new(CONTENDERS) do
    Thread.new { ActiveRecord::Base.connection_pool.with_connection { yield } }
  end
  threads.each(&:join)
end

# A migration takes a session lock, and its statements are one transaction.
def migrate
  connection = ActiveRecord::Base.connection
  connection.get_advisory_lock(4711) || fail!("the lock of migrations")
  connection.transaction { yield connection }
  connection.release_advisory_lock(4711) || fail!("the lock of migrations was not held")
end

migrate do |connection|
  connection.drop_table(:record_items, if_exists: true)
  connection.create_table(:record_items) do |table|
    table.string :name, null: false, index: { unique: true }
    table.integer :total, null: false, default: 0
    table.integer :lock_version, null: false, default: 0
  end
end
Item.create!(name: "counted")
puts "ok migration"

before = sums
in_threads { ROUNDS.times { retried { work } } }
after = sums
fail!("#{before} became #{after}") unless after.zip(before).map { |a, b| a - b } == [3 * CONTENDERS * ROUNDS] * 2
puts "ok contended"

# Stricter isolation is set after BEGIN, and what is rolled back leaves nothing.
Hot.transaction(isolation: :repeatable_read) do
  level = Hot.connection.select_value("SHOW transaction_isolation")
  fail!("isolation #{level}") unless level == "repeatable read"
  Item.create!(name: "rolled back")
  raise ActiveRecord::Rollback
end
fail!("it was not rolled back") if Item.exists?(name: "rolled back")
puts "ok rollback"

# Prepared statements survive a transaction that fails, and are forgotten when the session is reset.
begin
  Hot.transaction { Item.create!(name: "counted") }
rescue ActiveRecord::RecordNotUnique
  nil
end
fail!("a prepared statement") unless Item.where(name: "counted").count == 1
Hot.connection.reset!
fail!("a prepared statement after a reset") unless Item.where(name: "counted").count == 1
puts "ok prepared"

migrate { |connection| connection.drop_table(:record_items) }
