select
    s_i_id,
    sum(s_order_cnt) as ordercount
from
    stock,
    supplier,
    nation
where
    {supplier} = su_suppkey
    and su_nationkey = n_nationkey
    and n_name = 'Germany'
group by
    s_i_id having
        sum(s_order_cnt) >= (
            select
                sum(s_order_cnt) * {fraction}
            from
                stock,
                supplier,
                nation
            where
                {supplier} = su_suppkey
                and su_nationkey = n_nationkey
                and n_name = 'Germany'
        )
order by
    ordercount desc
