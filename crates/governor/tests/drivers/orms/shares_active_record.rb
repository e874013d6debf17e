# Rails' ActiveRecord: the sample transactions. See ../README.md.

require_relative "active_record_hot"

connect

class Customer < ActiveRecord::Base
end

class Order < ActiveRecord::Base
  has_many :items
end

class Item < ActiveRecord::Base
  belongs_to :order
end

class Gate < ActiveRecord::Base
  self.table_name = "gate"
end

def add(amount)
  Customer.where(id: 1).update_all(["balance = balance + ?", amount])
end

TRANSACTIONS = {
  "create" => lambda {
    order = Order.create!(customer_id: 1, total: 30)
    %w[apple pear].each { |sku| order.items.create!(sku: sku, quantity: 2) }
    add(-30)
  },
  "log" => lambda {
    add(10)
    Order.create!(customer_id: 1, total: 10)
  },
  "change" => lambda {
    customer = Customer.find(1)
    customer.update!(balance: customer.balance + 5)
  },
  "lock" => lambda {
    customer = Customer.lock.find(1)
    customer.update!(balance: customer.balance + 5)
  },
  "increment" => -> { Customer.update_counters(1, balance: 1) },
  "bulk" => lambda {
    add(1)
    Item.insert_all((0...20).map { |number| { order_id: 1, sku: "sku #{number}", quantity: 1 } })
  },
}

$stdin.each_line do |name|
  begin
    ActiveRecord::Base.transaction do
      TRANSACTIONS.fetch(name.strip).call
      Gate.where(id: 1).update_all("passed = passed + 1")
    end
    puts "ok"
  rescue ActiveRecord::StatementInvalid => error
    puts error.cause.result.error_field(PG::Result::PG_DIAG_SQLSTATE)
  end
  $stdout.flush
end
