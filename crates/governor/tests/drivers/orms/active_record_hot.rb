# What both programs for ActiveRecord need: the connection, and the table whose rows others hold. See ../README.md.

require "active_record"

def connect(pool: 1)
  ActiveRecord::Base.establish_connection(
    adapter: "postgresql",
    host: ENV.fetch("PGHOST"),
    port: ENV.fetch("PGPORT").to_i,
    username: ENV.fetch("PGUSER"),
    password: ENV.fetch("PGPASSWORD"),
    database: ENV.fetch("PGDATABASE"),
    pool: pool
  )
end

class Hot < ActiveRecord::Base
  self.table_name = "hot"
end
